from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from config import cli
from hub.errors import ErrorCode, VeenError
from recorder.adapters.framing import Framer, FramingError
from recorder.adapters.guard import AllowList, check_bind
from recorder.adapters.syslog import event_of, parse_time
from tests.recorder.conftest import MakeCast
from tests.support.adapters import Adapter, running
from tests.support.connections import Cast
from tests.support.live_hub import LiveHub, until

LINE = (
    b"<165>1 2026-03-01T09:00:00.003456+02:00 router7 evntslog 811 ID47 "
    b'[exampleSDID@32473 iut="3" note="a\\"b\\\\c\\]d"][more@1 x="1" x="2"] '
    b"\xef\xbb\xbfAn application event"
)


def read(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = dict(event_of(data, event_type="syslog.message", peer="10.0.0.9"))
    return found


def test_every_field_of_a_message_is_kept() -> None:
    assert read(LINE) == {
        "event_type": "syslog.message",
        "subject_id": "router7",
        "origin": "router7/evntslog",
        "event_time": "2026-03-01T07:00:00.003Z",
        "payload": {
            "facility": 20,
            "severity": "notice",
            "message": "An application event",
            "peer": "10.0.0.9",
            "hostname": "router7",
            "app_name": "evntslog",
            "procid": "811",
            "msgid": "ID47",
            "structured_data": {
                "exampleSDID@32473": {"iut": "3", "note": 'a"b\\c]d'},
                "more@1": {"x": ["1", "2"]},
            },
        },
    }


def test_nil_values_are_left_out_and_the_peer_is_the_origin() -> None:
    found = read(b"<0>1 - - - - - -")
    assert found["origin"] == "10.0.0.9"
    assert found["subject_id"] == ""
    assert "event_time" not in found
    assert found["payload"] == {
        "facility": 0, "severity": "emergency", "message": "", "peer": "10.0.0.9",
    }  # fmt: skip


def test_control_characters_and_bad_utf8_are_data() -> None:
    found = read(b"<13>1 - h a - - - x\r\n\x1b[31m\xff\0y")
    assert found["payload"]["message"] == "x\r\n\x1b[31m\\xff\0y"


@pytest.mark.parametrize(
    "data",
    [
        b"plain text",
        b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
        b"<192>1 - - - - - -",
        b"<13>2 - - - - - -",
        b"<13>1 yesterday h a - - - x",
        b"<13>1 2026-02-30T00:00:00Z h a - - - x",
        b"<13>1 1960-02-01T00:00:00Z h a - - - x",
        b"<13>1 - h a - - [broken x",
        b'<13>1 - h a - - [id x="1"]y',
        b"<13>1 - h a - -",
        b"",
    ],
)
def test_what_is_no_message_is_kept_raw_with_the_reason(data: bytes) -> None:
    found = read(data)
    assert found["payload"]["raw"] == data.decode()
    assert found["payload"]["error"]
    assert found["origin"] == "10.0.0.9"


def test_times_with_an_offset_become_utc() -> None:
    assert parse_time("1970-01-01T01:00:00+01:00") == 0
    assert parse_time("1970-01-01T00:00:00.9-00:30") == 1_800_900
    with pytest.raises(ValueError, match="TIMESTAMP"):
        parse_time("1970-01-01T00:00:00.1234567Z")


def test_both_framings_are_cut_wherever_the_stream_is_broken() -> None:
    stream = b"5 <1>ab6 <2>\ncd<3>line\n<4>crlf\r\n<5>nul\0\n" + b"3 <6>"
    expected = [b"<1>ab", b"<2>\ncd", b"<3>line", b"<4>crlf", b"<5>nul", b"<6>"]
    for step in (1, 2, 7, len(stream)):
        framer = Framer(100)
        found: list[bytes] = []
        for start in range(0, len(stream), step):
            found += framer.feed(stream[start : start + step])
        assert found + framer.end() == expected
    framer = Framer(100)
    assert framer.feed(b"<7>no newline") == []
    assert framer.end() == [b"<7>no newline"]


@pytest.mark.parametrize("data", [b"101 x", b"12345678", b"1x2 a", b"<1>" + b"x" * 200])
def test_a_stream_that_cannot_be_cut_is_given_up(data: bytes) -> None:
    with pytest.raises(FramingError):
        Framer(100).feed(data)


def test_only_listed_peers_are_heard() -> None:
    loopback = AllowList([])
    assert loopback.allows("127.0.0.5")
    assert loopback.allows("::1")
    assert loopback.allows("::ffff:127.0.0.1")
    assert not loopback.allows("10.0.0.1")
    assert not loopback.allows("local")
    listed = AllowList(["10.0.0.0/24", "fe80::/10"])
    assert listed.allows("10.0.0.200")
    assert listed.allows("fe80::1%eth0")
    assert not listed.allows("127.0.0.1")
    with pytest.raises(VeenError) as refused:
        AllowList(["10.0.0.0/40"])
    assert refused.value.code is ErrorCode.CONFIG


def test_listening_beyond_loopback_needs_a_list() -> None:
    check_bind("127.0.0.1", [])
    check_bind("::1", [])
    check_bind("0.0.0.0", ["10.0.0.0/8"])  # noqa: S104 - it is refused otherwise
    for bind in ("0.0.0.0", "10.1.2.3", "::", "host.example"):  # noqa: S104 - refused
        with pytest.raises(VeenError):
            check_bind(bind, [])


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    made = make_cast(hub)
    made.types = {next(iter(made.types)): ("syslog.message",)}
    return made


@contextmanager
def listening(cast: Cast, folder: Path, *flags: str) -> Iterator[Adapter]:
    command = ["syslog", "--udp-port", "0", "--tcp-port", "0", *flags]
    with running(cast, folder, *command) as adapter:
        yield adapter


def messages(cast: Cast, hub: LiveHub) -> list[str]:
    events = cast.events(hub.url, next(iter(cast.types)))
    return [json.loads(event.payload)["message"] for event in events]


def test_lines_over_udp_and_tcp_are_recorded_with_their_origin(
    cast: Cast, hub: LiveHub, tmp_path: Path
) -> None:
    with listening(cast, tmp_path) as adapter:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(LINE, ("127.0.0.1", adapter.ports["udp"]))
        with socket.create_connection(("127.0.0.1", adapter.ports["tcp"])) as tcp:
            tcp.sendall(b"%d %b<13>1 - h app - - - second\n" % (len(LINE), LINE))
        until(lambda: len(messages(cast, hub)) == 3)
    events = cast.events(hub.url, next(iter(cast.types)))
    assert {event.origin for event in events} == {"router7/evntslog", "h/app"}
    assert sorted(messages(cast, hub)) == ["An application event", "An application event", "second"]


@pytest.mark.skipif(which("logger") is None, reason="no logger command on this machine")
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_the_logger_command_of_the_system_is_understood(
    cast: Cast, hub: LiveHub, tmp_path: Path, transport: str
) -> None:
    with listening(cast, tmp_path) as adapter:
        flags = ["--udp"] if transport == "udp" else ["--tcp", "--octet-count"]
        subprocess.run(
            ["logger", "--rfc5424", "--server", "127.0.0.1", *flags, "--port",
             str(adapter.ports[transport]), "--tag", "shop", "--priority", "user.err", "it\tburns"],
            check=True,
        )  # fmt: skip
        until(lambda: messages(cast, hub) == ["it\tburns"])
    (event,) = cast.events(hub.url, next(iter(cast.types)))
    assert event.origin.endswith("/shop")


def test_a_forbidden_peer_and_a_broken_stream_record_nothing(
    cast: Cast, hub: LiveHub, tmp_path: Path
) -> None:
    with listening(cast, tmp_path, "--allow", "10.0.0.0/8") as adapter:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(LINE, ("127.0.0.1", adapter.ports["udp"]))
        with socket.create_connection(("127.0.0.1", adapter.ports["tcp"])) as tcp:
            tcp.sendall(LINE + b"\n")
            assert tcp.recv(1) == b""
    with listening(cast, tmp_path) as adapter:
        with socket.create_connection(("127.0.0.1", adapter.ports["tcp"])) as tcp:
            tcp.sendall(b"99999999 x")
            assert tcp.recv(1) == b""
        with socket.create_connection(("127.0.0.1", adapter.ports["tcp"])) as tcp:
            tcp.sendall(b"<13>1 - h app - - - good\n")
        until(lambda: messages(cast, hub) == ["good"])


def test_an_adapter_needs_a_port_and_a_bind_with_a_list(cast: Cast, tmp_path: Path) -> None:
    flags = ["recorder", "adapter", "syslog", "--connection", str(cast.write(tmp_path))]
    assert cli.run(flags) == 1
    assert cli.run([*flags, "--udp-port", "0", "--bind", "0.0.0.0"]) == 1  # noqa: S104 - refused
