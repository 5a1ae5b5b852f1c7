"""C8 for the recorder: every door through which foreign bytes come in, under mutation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import WireError
from hub.selftest.fuzz import fuzz_kind, judge
from hub.selftest.fuzz_targets import CBOR_BOMBS
from hub.selftest.kinds import Kind
from hub.storage import frames
from recorder import spool_files
from recorder.adapters import otlp, syslog
from recorder.adapters.framing import Framer, FramingError
from recorder.adapters.otlp import OtlpError
from recorder.connection import Connection
from recorder.event import RecorderEvent, UnixMillis, read_incoming
from recorder.evidence.pack import Pack
from recorder.evidence.verify import verify_pack
from recorder.gateway.intake import read_request
from recorder.spool_files import SpoolEntry
from tests.recorder.adapters.test_otlp import REQUEST, as_protobuf
from tests.recorder.evidence.packs import make_pack
from tests.support.connections import Cast

HUB = SigningKey(b"a hub that nobody needs to start")
NOW_MS = 1_772_355_600_000
LINE = b"<34>1 2026-03-01T09:00:00.250Z gw1 sshd 77 ID47 "
EVENT = RecorderEvent(
    subject_id="älice", event_type="login.ok", event_time=UnixMillis(NOW_MS), origin="idp",
    payload='{"a":[1,2.5,null],"ü":"\\n"}',
)  # fmt: skip
SENT = json.dumps({
    "event_type": "login.ok", "subject_id": "alice", "event_time": "2026-03-01T09:00:00.25Z",
    "origin": "idp", "payload": {"n": 1.5, "deep": [[[1]]]}, "idempotency_key": "k",
}).encode()  # fmt: skip


def _spool_file(folder: Path) -> Callable[[bytes], object]:
    """Any bytes in a spool file: what is whole is read, the rest is torn or damaged."""

    def decode(data: bytes) -> object:
        path = folder / "x.spool"
        path.write_bytes(data)
        piece = spool_files.read_piece(path, spool_files.FIRST, items_max=64)
        spool_files.is_torn(path, piece.end)
        if not piece.entries:
            raise WireError("no whole entry")
        return piece

    return decode


def _request(data: bytes) -> object:
    """Events of a request, each judged as the gateway does."""
    events, is_batch = read_request(data)
    for index, found in enumerate(events):
        prefix = f"/events/{index}" if is_batch else ""
        read_incoming(found, now_ms=NOW_MS, default_origin="shop", prefix=prefix)
    return events


def _syslog(data: bytes) -> object:
    """Whatever is sent becomes an event that the recorder takes."""
    found = syslog.event_of(data, event_type="syslog.message", peer="10.0.0.9")
    event = read_incoming(found, now_ms=NOW_MS, default_origin="syslog").event
    return RecorderEvent.decode(event.encode())


def _framed(data: bytes) -> object:
    """A TCP stream that arrives in two parts is cut as when it arrives in one."""
    try:
        whole = Framer(8192)
        found = [*whole.feed(data), *whole.end()]
        parted = Framer(8192)
        half = len(data) // 2
        again = [*parted.feed(data[:half]), *parted.feed(data[half:]), *parted.end()]
    except FramingError as flaw:
        raise WireError(str(flaw)) from flaw
    assert found == again
    return found


def _otlp(read: Callable[[bytes], list[otlp.LogLine]]) -> Callable[[bytes], object]:
    def decode(data: bytes) -> object:
        try:
            lines = read(data)
        except OtlpError as flaw:
            raise WireError(str(flaw)) from flaw
        for line in lines:
            found = line.event(event_type="otlp.log", peer="10.0.0.9")
            read_incoming(found, now_ms=NOW_MS, default_origin="otlp")
        return lines

    return decode


def _kinds(folder: Path) -> Iterator[Kind]:
    cast = Cast(hub_pk=HUB.public, more={"web_url": "https://veen.example"})
    plain = SpoolEntry(stream="record/app/x", body=EVENT.encode())
    keyed = SpoolEntry(
        stream="record/app/x", body=bytes(300), key="k", content=bytes(32), wants_receipt=True
    )
    pack, opened = make_pack(), make_pack(is_open=True)
    spool = frames.MAGIC + b"".join(
        frames.frame(frames.RECORD, one.encode()) for one in (plain, keyed, plain)
    )
    yield Kind(
        name="recorder_event",
        seeds=(EVENT.encode(), *CBOR_BOMBS),
        decode=RecorderEvent.decode,
        encode=RecorderEvent.encode,
    )
    yield Kind(
        name="spool_entry",
        seeds=(plain.encode(), keyed.encode()),
        decode=SpoolEntry.decode,
        encode=SpoolEntry.encode,
    )
    yield Kind(name="spool_file", seeds=(spool,), decode=_spool_file(folder))
    yield Kind(
        name="evidence_pack",
        seeds=(pack.encode(), opened.encode()),
        decode=Pack.decode,
        encode=Pack.encode,
    )
    yield Kind(
        name="evidence_verdict",
        seeds=(pack.encode(), opened.encode()),
        decode=lambda data: verify_pack(data, HUB.public),
    )
    yield Kind(
        name="connection_file",
        seeds=(cast.connection().render(), b'{"ver":1,"streams":[]}'),
        decode=Connection.parse,
    )
    yield Kind(
        name="request",
        seeds=(SENT, b'{"events":[' + SENT + b"," + SENT + b"]}", b"[" * 300 + b"]" * 300),
        decode=_request,
    )
    yield Kind(
        name="syslog",
        seeds=(LINE + b'[a@1 k="v\\]"] text', LINE + b"- \xef\xbb\xbftext", b"<13>old style"),
        decode=_syslog,
    )
    yield Kind(
        name="syslog_stream",
        seeds=(b"5 <1>ab6 <1>abc", b"<1>a\n<1>b\r\n<1>c\0", b"7 <1>a\nb"),
        decode=_framed,
    )
    request = json.dumps(REQUEST).encode()
    yield Kind(name="otlp_json", seeds=(request,), decode=_otlp(otlp.read_json))
    yield Kind(name="otlp_protobuf", seeds=(as_protobuf(),), decode=_otlp(otlp.read_protobuf))


KINDS = {kind.name: kind for kind in _kinds(Path(tempfile.gettempdir()))}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_only_refusals_escape_from_a_door(
    name: str, seed: int, scaled: Callable[[int, int], int], tmp_path: Path
) -> None:
    kind = next(one for one in _kinds(tmp_path) if one.name == name)
    tally = fuzz_kind(kind, seed, runs=scaled(1_000, 200_000))
    found = tally.finding
    assert found is None, f"seed {seed}: {found.reason}, input {found.data.hex()}"
    assert tally.accepted > 0


@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_door_stumbles_over_what_was_meant_for_another(name: str, tmp_path: Path) -> None:
    kinds = list(_kinds(tmp_path))
    kind = next(one for one in kinds if one.name == name)
    for data in (*CBOR_BOMBS, *[seed for one in kinds for seed in one.seeds]):
        _, finding = judge(kind, data)
        assert finding is None, finding
