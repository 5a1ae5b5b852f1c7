from __future__ import annotations

from hashlib import sha256

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.admission.records import (
    ADMISSION,
    CONTROL,
    LABEL_CLASS,
    REASON_BYTES_MAX,
    REVOCATION,
    AdmissionRecord,
    ControlRecord,
    LabelClass,
    Revocation,
    RevocationKind,
)
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import AuthRef, Hash, UnixSeconds
from hub.wire.captoken import CapToken
from tests.support.strategies import bytes32, flipped_bits, uint64, values
from tests.support.vectors import load

TOKEN = CapToken.issue(
    SigningKey(bytes([1]) * 32), subject_pk=bytes(32), stream_ids=[bytes(32)], ttl=60
)
TARGET = Hash(bytes(range(32)))

revocations = st.builds(
    Revocation,
    kind=st.sampled_from(RevocationKind),
    target=bytes32,
    ts=uint64,
    reason=st.none() | st.text(max_size=40),
    ttl=st.none() | uint64,
)
controls = st.builds(
    ControlRecord,
    verb=st.text(max_size=16),
    detail=st.dictionaries(st.text(max_size=8), values, max_size=4),
    ts=uint64,
)


label_classes = st.builds(
    LabelClass,
    label=bytes32,
    name=st.text(max_size=16),
    sensitivity=st.none() | st.text(max_size=16),
    retention_hint=st.none() | uint64,
)


def test_schema_ids_are_plain_hashes_of_their_names() -> None:
    known = {entry["name"]: entry["schema_id"] for entry in load("schema_ids")["plain"]}
    assert REVOCATION.hex() == known["veen.revocation.v1"]
    assert LABEL_CLASS.hex() == known["veen.label.class.v1"]
    assert sha256(b"veen.admission.v1").digest() == ADMISSION
    assert sha256(b"veen.control.v1").digest() == CONTROL


def test_an_admission_record_has_token_then_auth_ref() -> None:
    record = AdmissionRecord.of(TOKEN)
    pairs = {"token": TOKEN.encode(), "auth_ref": TOKEN.auth_ref()}
    assert record.encode() == cbor2.dumps(pairs)
    assert AdmissionRecord.decode(record.encode()) == record


def test_an_admission_record_that_names_another_token_is_refused() -> None:
    other = AdmissionRecord(token=TOKEN.encode(), auth_ref=AuthRef(bytes(32)))
    with pytest.raises(WireError, match="does not name"):
        AdmissionRecord.decode(other.encode())


def test_no_flipped_bit_of_an_admission_record_survives() -> None:
    for mutant in flipped_bits(AdmissionRecord.of(TOKEN).encode()):
        with pytest.raises(WireError):
            AdmissionRecord.decode(mutant)


@given(revocations)
def test_a_revocation_decodes_to_itself(revocation: Revocation) -> None:
    assert Revocation.decode(revocation.encode()) == revocation


def test_a_revocation_has_its_fields_in_the_listed_order() -> None:
    revocation = Revocation(
        kind=RevocationKind.CAP_TOKEN, target=TARGET, ts=UnixSeconds(7), reason="lost", ttl=9
    )
    listed = {"kind": "cap-token", "target": TARGET, "reason": "lost", "ts": 7, "ttl": 9}
    assert revocation.encode() == cbor2.dumps(listed)


BODY = {"kind": "auth-ref", "target": TARGET, "reason": "r", "ts": 7, "ttl": 9}


@pytest.mark.parametrize(
    "body",
    [
        {**BODY, "kind": "client"},
        {**BODY, "target": TARGET[:31]},
        {**BODY, "reason": None},
        {**BODY, "ttl": None},
        {**BODY, "ts": -1},
        {**BODY, "more": 1},
        {**BODY, "reason": "r" * (REASON_BYTES_MAX + 1)},
        {name: BODY[name] for name in ("kind", "target", "ts", "reason", "ttl")},
        {name: BODY[name] for name in ("kind", "target", "ttl", "ts")},
        {name: BODY[name] for name in ("kind", "target", "reason", "ttl")},
        {name: BODY[name] for name in ("kind", "target", "reason")},
        {name: BODY[name] for name in ("kind", "target")},
        {**{name: BODY[name] for name in ("kind", "target", "ts")}, "x": 1, "y": 2},
        {},
    ],
)
def test_another_shape_of_a_revocation_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(VeenError) as refusal:
        Revocation.decode(cbor2.dumps(body))
    assert refusal.value.code is ErrorCode.FORMAT


@pytest.mark.parametrize(
    ("ttl", "in_force"),
    [(None, [False, True, True, True]), (10, [False, True, True, False]), (0, [False] * 4)],
)
def test_a_revocation_is_in_force_from_ts_until_before_ts_plus_ttl(
    ttl: int | None, in_force: list[bool]
) -> None:
    revocation = Revocation(
        kind=RevocationKind.CLIENT_ID, target=TARGET, ts=UnixSeconds(100), ttl=ttl
    )
    assert [revocation.is_in_force(hub_ts) for hub_ts in (99, 100, 109, 110)] == in_force


def test_the_end_of_a_revocation_saturates() -> None:
    top = 2**64 - 1
    revocation = Revocation(
        kind=RevocationKind.CLIENT_ID, target=TARGET, ts=UnixSeconds(top), ttl=top
    )
    assert revocation.until == top


@given(controls)
def test_a_control_record_decodes_to_itself(record: ControlRecord) -> None:
    assert ControlRecord.decode(record.encode()) == record


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "prune", "detail": [], "ts": 1},
        {"verb": "prune", "detail": {1: 2}, "ts": 1},
        {"verb": "v" * 65, "detail": {}, "ts": 1},
        {"verb": "prune", "ts": 1, "detail": {}},
        {"verb": "prune", "detail": {}},
        {"verb": "prune", "detail": {"at": 1.5}, "ts": 1},
    ],
)
def test_another_shape_of_a_control_record_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(VeenError) as refusal:
        ControlRecord.decode(cbor2.dumps(body))
    assert refusal.value.code is ErrorCode.FORMAT


@pytest.mark.parametrize(
    ("schema", "kind"), [("veen.revocation.v1", Revocation), ("veen.label.class.v1", LabelClass)]
)
def test_bodies_are_those_of_the_vectors(schema: str, kind: type[Revocation | LabelClass]) -> None:
    (body,) = (
        bytes.fromhex(entry["cbor"])
        for entry in load("overlay_bodies")["bodies"]
        if entry["schema"] == schema
    )
    assert kind.decode(body).encode() == body


@given(label_classes)
def test_label_classes_round_trip_in_schema_order(record: LabelClass) -> None:
    body = record.encode()
    assert LabelClass.decode(body) == record
    names = ["label", "class", "sensitivity", "retention_hint"]
    assert list(cbor2.loads(body)) == [name for name in names if name in cbor2.loads(body)]


@pytest.mark.parametrize(
    "body",
    [
        {"label": bytes(32), "class": "log", "retention_hint": 1, "sensitivity": "low"},
        {"label": bytes(32), "class": "log", "sensitivity": None},
        {"label": bytes(32), "class": "log", "colour": "red"},
        {"class": "log", "label": bytes(32)},
        {"label": bytes(31), "class": "log"},
        {"label": bytes(32), "class": "x" * 65},
        {"label": bytes(32)},
    ],
)
def test_another_shape_of_a_label_class_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(WireError):
        LabelClass.decode(cbor2.dumps(body))
