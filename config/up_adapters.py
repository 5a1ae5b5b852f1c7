"""The adapters of a bundle: their sockets, their producers, how they are started [architecture].

Each has one producer. Without a connection file of the operator's, `up` has the producer and its
stream made by acts, which are recorded like any administrator's.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from config.settings_file import Settings
from config.up_state import StateDir, make_private_dir, write_atomic
from hub.cli.place import Place
from hub.errors import ErrorCode, VeenError
from recorder import connection_renewal, sdk_standing
from recorder.adapters.sockets import bound_tcp, bound_udp
from recorder.cli import new_connection
from recorder.cli.desk import Desk

SYSLOG, OTLP = "syslog", "otlp"
PORTS_TRIED_MAX: Final = 20
ACT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an adapter records when nothing else is said."""

    event_type: str
    stream: str
    has_datagrams: bool


SOURCES: Final = MappingProxyType({
    SYSLOG: Source(
        event_type="syslog.message", stream="record/infrastructure/syslog", has_datagrams=True
    ),
    OTLP: Source(event_type="otlp.log", stream="record/app/otlp", has_datagrams=False),
})  # fmt: skip


class Adapter:
    """One adapter that is switched on; its sockets live as long as the bundle."""

    def __init__(self, name: str, settings: Settings, state: StateDir) -> None:
        self.name = name
        self.source = SOURCES[name]
        self._state = state
        self._bind: str = getattr(settings, f"{name}_bind")
        self._port: int = getattr(settings, f"{name}_port")
        self._allow: tuple[str, ...] = getattr(settings, f"{name}_allow")
        given: Path | None = getattr(settings, f"{name}_connection")
        self._is_given = given is not None
        self.connection = given or state.adapters / f"{name}.json"
        self._udp: socket.socket | None = None
        self._tcp: socket.socket | None = None
        self._principal = ""
        self._published_at = 0
        self._flaw = ""

    def check(self) -> None:
        """Raise what can be known before anything is started."""
        if self._is_given and not self.connection.exists():
            raise VeenError(
                ErrorCode.CONFIG,
                f"{self.name}_connection names {self.connection}, which does not exist; leave it "
                f"out and `up` makes one, or run `veen recorder producer add NAME --stream STREAM "
                f"--out {self.connection}` while {self.name} is off",
            )

    def listen(self) -> None:
        """Senders know one address: a taken port is refused, never replaced by the next."""
        try:
            self._tcp, self._udp = self._bound()
        except OSError as error:
            detail = (
                f"{self.name} cannot listen on {self._bind} port {self._port} ({error.strerror})"
            )
            raise VeenError(ErrorCode.CONFIG, f"{detail}; {self.name}_port sets another") from error

    def _bound(self) -> tuple[socket.socket, socket.socket | None]:
        if not self.source.has_datagrams:
            return bound_tcp(self._bind, self._port), None
        for tries_left in reversed(range(PORTS_TRIED_MAX)):
            tcp = bound_tcp(self._bind, self._port)
            try:
                return tcp, bound_udp(self._bind, tcp.getsockname()[1])
            except OSError:
                tcp.close()
                if self._port != 0 or not tries_left:
                    raise  # only a port that the system chose may be free for one of the two
        raise AssertionError

    @property
    def address(self) -> str:
        """What a sender is told."""
        assert self._tcp is not None
        host = f"[{self._bind}]" if ":" in self._bind else self._bind
        port = self._tcp.getsockname()[1]
        if self.source.has_datagrams:
            return f"udp and tcp {host}:{port}"
        return f"http://{host}:{port}/v1/logs"

    @property
    def fds(self) -> tuple[int, ...]:
        """The sockets that the process inherits."""
        return tuple(one.fileno() for one in (self._tcp, self._udp) if one is not None)

    def command(self) -> list[str]:
        """How the process is started; it learns its producer from the connection file."""
        assert self._tcp is not None
        self._principal = self._current_principal()
        command = [sys.executable, "-m", "recorder.adapters", self.name]
        command += ["--connection", str(self.connection), "--event-type", self.source.event_type]
        command += ["--ready-file", str(self._state.ready(self.name))]
        command += ["--tcp-fd", str(self._tcp.fileno())]
        if self._udp is not None:
            command += ["--udp-fd", str(self._udp.fileno())]
        if not self._is_given:  # else the spool that this producer has on this host already
            command += ["--spools", str(self._state.adapters / "spool")]
        for network in self._allow:
            command += ["--allow", network]
        return command

    def has_new_key(self) -> bool:
        """Whether the producer was rotated since the process was started."""
        return bool(self._principal) and self._current_principal() != self._principal

    def _current_principal(self) -> str:
        with contextlib.suppress(OSError, VeenError):
            return sdk_standing.read_connection(self.connection).principal.hex()
        return self._principal

    def ensure_connection(self) -> None:
        """Have a producer and its stream made, once; raise a sentence that says what to do."""
        if self.connection.exists():
            return
        make_private_dir(self.connection.parent)
        desk = Desk(
            place=Place(root=self._state.root),
            timeout_s=ACT_TIMEOUT_S,
            reason=f"the {self.name} adapter is switched on",
        )
        if self._is_anothers(desk):
            raise VeenError(
                ErrorCode.POLICY,
                f"there is a producer {self.name} already, and {self.connection} is missing; "
                f"`veen recorder producer rotate {self.name} --out {self.connection}` writes it",
            )
        args: dict[str, Any] = {"name": self.name, "streams": [self._ensure_stream(desk)]}
        new_connection.obtain(desk, "producer.add", args, out=self.connection)

    def _is_anothers(self, desk: Desk) -> bool:
        """A run that was killed between the act and the file left the key beside it."""
        kept = self.connection.with_name(self.connection.name + ".key")
        names = {one["name"] for one in desk.rows("producers") if one["ended_at"] is None}
        return self.name in names and not kept.exists()

    def _ensure_stream(self, desk: Desk) -> str:
        """The stream of the event type, which an operator may have chosen before."""
        wanted, event_type = self.source.stream, self.source.event_type
        streams = {one["name"]: one["event_types"] for one in desk.rows("streams")}
        for name, event_types in streams.items():
            if event_type in event_types:
                return str(name)
        if wanted in streams:
            desk.ask("stream.map", {"stream": wanted, "event_types": [event_type]})
        else:
            desk.ask("stream.create", {"name": wanted, "event_types": [event_type]})
        return wanted

    def follow(self, hub_url: str) -> None:
        """The hub may be at another port than last time; a running adapter reads the file again."""
        if self._is_given or not self.connection.exists():
            return
        found = sdk_standing.read_connection(self.connection)
        if found.hub_url != hub_url:
            write_atomic(self.connection, replace(found, hub_url=hub_url).render())

    def follow_streams(self) -> str | None:
        """A stream has a newer key, type or bound: a running adapter reads the file again.

        What is wrong is told once, and tried again.
        """
        published = self._state.gateway / "config.json"
        if self._is_given or not self.connection.exists() or not published.exists():
            return None
        try:
            changed_at = published.stat().st_mtime_ns
            if changed_at != self._published_at:
                held = sdk_standing.read_connection(self.connection)
                found = connection_renewal.renewed(held, connection_renewal.of_published(published))
                if found != held:
                    write_atomic(self.connection, found.render())
                self._published_at = changed_at
        except (VeenError, OSError) as refusal:
            before, self._flaw = self._flaw, str(refusal)
            return None if self._flaw == before else self._flaw
        return None

    def close(self) -> None:
        for one in (self._tcp, self._udp):
            if one is not None:
                one.close()


def adapters_of(settings: Settings, state: StateDir) -> dict[str, Adapter]:
    """Those that are switched on."""
    return {name: Adapter(name, settings, state) for name in SOURCES if getattr(settings, name)}
