"""The page and the command say the same of every pack, whole or broken, check by check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.selftest.specimens import HUB, HUB_2
from hub.types import AuthRef, Hash, PublicKey
from hub.wire.profile import DEFAULT_PROFILES
from recorder.event import format_time
from recorder.evidence.pack import Pack
from recorder.evidence.verify import verify_pack
from tests.recorder.evidence import packs
from tests.recorder.evidence.conftest import CHROMIUM, Judge
from tests.recorder.evidence.packs import CHAIN, HUB_3, event, make_pack, message

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]


def told(data: bytes, key: PublicKey | None) -> dict[str, Any]:
    """What the Python verifier says, in the form of the page."""
    judgement = verify_pack(data, key)
    found = judgement.reading.event
    return {
        "checks": [[str(c.verdict), c.name, c.ok] for c in judgement.report.checks],
        "verdicts": judgement.report.verdicts(),
        "word": judgement.word(),
        "signer": judgement.signer.value,
        "content": judgement.reading.content.value,
        "event": found
        and [
            found.subject_id,
            found.event_type,
            format_time(found.event_time),
            found.origin,
            found.payload,
        ],
    }


def agree(judge: Judge, many: Sequence[bytes], key: PublicKey | None) -> list[dict[str, Any]]:
    said = judge(many, None if key is None else key.hex())
    for data, one in zip(many, said, strict=True):
        assert one == told(data, key)
    return said


def test_every_position_of_every_small_log(judge: Judge) -> None:
    many = [
        make_pack(seq, size).encode() for size in (1, 2, 7, 8, 13) for seq in range(1, size + 1)
    ]
    assert {one["word"] for one in agree(judge, many, HUB.public)} == {"valid"}


@pytest.mark.parametrize("signer", [0, 1, 2])
def test_every_key_of_a_rotated_log_leads_to_the_same_verdict(judge: Judge, signer: int) -> None:
    data = make_pack(is_open=True, keys=CHAIN, signer=signer).encode()
    for key in CHAIN:
        assert agree(judge, [data], key.public)[0]["word"] == "valid"


def test_without_the_right_fingerprint_the_signer_is_unknown(judge: Judge) -> None:
    data = make_pack(is_open=True).encode()
    for key in (None, HUB_2.public):
        (said,) = agree(judge, [data], key)
        assert (said["word"], said["signer"]) == ("signer unknown", "unknown")


@pytest.mark.parametrize("profile", DEFAULT_PROFILES, ids=lambda one: f"pad{one.pad_block}")
def test_a_disclosed_event_reads_the_same(judge: Judge, profile: Any) -> None:
    msg = message(5, profile=profile)
    (said,) = agree(judge, [make_pack(msg=msg, is_open=True, profile=profile).encode()], HUB.public)
    assert said["content"] == "opened"
    assert said["event"][0] == "user:5"


PAYLOADS = [
    "null", '""', "[]", "{}", "0", "-1", "1.5", "0.001", "-0.5", "9" * 401, "1" + "0" * 400,
    "0." + "0" * 399 + "1", '"\\u0000\\u001f\\n\\t\\b\\f\\r\\"\\\\/\x7f"', '{"a":[1,{"b":null}]}',
    '{"\\\\u000a":1}', '{"\ue000":1,"\U00010000":2}', "[" * 64 + "]" * 64, '"' + "é" * 40_000 + '"',
]  # fmt: skip
SLOPPY = [
    "", " null", "null ", "nul", "01", "-0", "1.0", "1.50", "1e3", "+1", ".5", "5.", "9" * 402,
    "0." + "0" * 400 + "1", "NaN", "Infinity", '"\\/"', '"\\u0041"', '"\\u000a"', '"\\u001F"',
    '"\n"', '"', '{"b":1,"a":2}', '{"a":1,"a":1}', '{"\U00010000":2,"\ue000":1}', '{"a" :1}',
    "[1, 2]",
    "[1,]",
    '{"a":1,}', "[" * 65 + "]" * 65, "null null", '"\\ud800"', "{1:2}", "[", "{", '{"a"', "nulL",
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "content"), [(PAYLOADS, "opened"), (SLOPPY, "undecodable")],
                         ids=["canonical", "sloppy"])  # fmt: skip
def test_payloads_are_judged_alike(judge: Judge, payloads: list[str], content: str) -> None:
    bodies = [event(5, payload).encode() for payload in payloads]
    many = [make_pack(msg=message(5, body=body), is_open=True).encode() for body in bodies]
    found = agree(judge, many, HUB.public)
    assert [one["content"] for one in found] == [content] * len(payloads)
    assert {one["word"] for one in found} == {"valid"}  # An author's slip is no flaw of evidence.


def test_bodies_that_are_no_event_are_shown_as_such(judge: Judge) -> None:
    good = event(5).encode()
    strange = [
        message(5, schema=Hash(h(b"another schema"))),
        message(5, body=b""),
        message(5, body=good + b"\x00"),
        message(5, body=good.replace(b"login.failed", b"login/failed")),
        message(5, body=good.replace(b"user:5", b"user\x00!")),
        message(5, body=good.replace(b"user:5", b"user\xff!")),
        message(5, cap_ref=AuthRef(h(b"another capability"))),
        message(5, cap_ref=None),
    ]
    many = [make_pack(msg=msg, is_open=True).encode() for msg in strange]
    contents = [one["content"] for one in agree(judge, many, HUB.public)]
    assert contents == ["unknown_schema", *["undecodable"] * 5, "cap_mismatch", "opened"]


def test_every_changed_byte_is_refused_by_both_for_the_same_reasons(judge: Judge) -> None:
    pack = make_pack(is_open=True, keys=CHAIN, signer=1)
    many = [data for _, data in packs.mutated(pack)]
    assert len(many) > 900
    assert "valid" not in {one["word"] for one in agree(judge, many, HUB_3.public)}


def test_files_that_are_no_pack_are_refused_by_both(judge: Judge) -> None:
    data = make_pack(is_open=True).encode()
    many = [b"", b"\xa0", data[:-1], data + b"\x00", b"\xbf" + data[1:], b"\xaa" + data[1:],
            data.replace(b"veen.evidence", b"veen.evidencf"), data.replace(b"record/", b"record\\"),
            data.replace(b"\x63ver\x01", b"\x63ver\x02"),
            data.replace(b"\x63ver\x01", b"\x63ver\x18\x01")]  # fmt: skip
    many += [data[:at] for at in range(0, len(data), 101)]
    assert {one["word"] for one in agree(judge, many, HUB.public)} == {"not valid"}


def test_genuine_pieces_of_different_events_never_verify_together(judge: Judge) -> None:
    """CVE-2026-22703: a receipt beside another payload (C17)."""
    one, two = make_pack(3, is_open=True), make_pack(4, is_open=True)
    names = ("msg", "receipt", "proof", "opening")
    mixed = [replace(one, **{name: getattr(two, name)}) for name in names]
    mixed += [
        replace(one, msg=two.msg, opening=two.opening),
        replace(one, receipt=two.receipt, proof=two.proof),
        replace(make_pack(3, 11), checkpoint=make_pack(3, 12).checkpoint),
        replace(make_pack(3, 11), manifest=make_pack(3, 12).manifest),
    ]
    many = [packs.raw_encode(pack) for pack in mixed]
    found = agree(judge, many, HUB.public)
    assert {said["word"] for said in found} == {"not valid"}
    assert found[0]["verdicts"]["binding"] == found[4]["verdicts"]["binding"] == "fails"


def test_rotation_records_that_do_not_belong_are_refused_by_both(judge: Judge) -> None:
    pack = make_pack(keys=CHAIN, signer=2)
    first, second = pack.rotations
    foreign = make_pack(keys=(SigningKey(bytes([9]) * 32), HUB)).rotations[0]
    wrong: list[Pack] = [
        replace(pack, rotations=(second, first)),
        replace(pack, rotations=(first,)),
        replace(pack, rotations=(second,)),
        replace(pack, rotations=()),
        replace(pack, rotations=(first, second, second)),
        replace(pack, rotations=(first, second, foreign)),
        replace(pack, rotations=(foreign, first, second)),
    ]
    many = [one.encode() for one in wrong]
    assert "valid" not in {one["word"] for one in agree(judge, many, HUB.public)}
