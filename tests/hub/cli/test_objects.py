from __future__ import annotations

import base64
import json

import pytest

from hub.cli.objects import KINDS, diagnostic, identify, read_bytes, sentence, show
from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.types import DhKey, StreamId, UnixSeconds
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.profile import PRODUCT
from hub.wire.readerkey import ReaderKeyRecord
from tests.support import vectors
from tests.support.wire_objects import author_vector

KEY = SigningKey(b"\x01" * 32)
TOKEN = CapToken.issue(KEY, subject_pk=b"\x02" * 32, stream_ids=[b"\x03" * 32], ttl=5)
RECORD = ReaderKeyRecord.sign(
    KEY,
    stream_id=StreamId(b"\x03" * 32),
    key_id=1,
    reader_pk=DhKey(b"\x04" * 32),
    ts=UnixSeconds(5),
)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (author_vector("A").msg_bytes, "MSG"),
        (TOKEN.encode(), "cap_token"),
        (RECORD.encode(), "reader key record"),
        (PRODUCT.encode(), "profile"),
        (TOKEN.encode() + RECORD.encode(), "CBOR Sequence"),
        (cbor.encode({"anything": [1, 2]}), "CBOR"),
    ],
)
def test_an_object_is_named_by_its_bytes(data: bytes, kind: str) -> None:
    assert identify(data)[0] == kind
    assert sentence(kind)


def test_every_vector_of_a_manifest_and_a_rotation_is_recognised() -> None:
    found = json.dumps(vectors.load("manifest_rotation"))
    named = set()
    for text in found.replace('"', " ").split():
        if len(text) > 300 and all(char in "0123456789abcdef" for char in text):
            try:
                named.add(identify(bytes.fromhex(text))[0])
            except VeenError:
                continue
    assert {"manifest", "rotation record"} <= named


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"\x5a\xff\xff\xff\xff"])
def test_what_is_no_cbor_is_refused(data: bytes) -> None:
    with pytest.raises(VeenError):
        identify(data)


def test_hex_and_base64_are_read_as_the_bytes_they_spell() -> None:
    data = TOKEN.encode()
    assert read_bytes(data) == data
    assert read_bytes(data.hex().encode() + b"\n") == data
    assert read_bytes(base64.b64encode(data)) == data


def test_fields_are_shown_in_hex() -> None:
    shown = show(TOKEN)
    assert isinstance(shown, dict)
    assert shown["issuer_pk"] == KEY.public.hex()
    assert shown["stream_ids"] == ["03" * 32]


def test_diagnostic_notation_spells_each_type() -> None:
    value: cbor.Value = [1, -2, b"\x0a", 'q"\\', True, None, {}, {"k": []}]
    flat = " ".join(diagnostic(value).split())
    assert flat == '[ 1, -2, h\'0a\', "q\\"\\\\", true, null, {}, { "k": [] } ]'


def test_each_kind_has_a_sentence() -> None:
    assert all(sentence(kind) for kind in KINDS)
