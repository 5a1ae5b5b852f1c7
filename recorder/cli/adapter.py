"""`veen recorder adapter`: listeners that turn other loggers' lines into events [interfaces]."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from hub.cli.output import emit, examples, json_option, note

_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
F = TypeVar("F", bound=Callable[..., Any])


def _listener(command: F) -> F:
    """The options of every adapter."""
    for option in (
        click.option(
            "--allow", multiple=True, metavar="CIDR", help="Who may send (default: loopback)."
        ),
        click.option(
            "--bind", default="127.0.0.1", show_default=True, help="Address to listen on."
        ),
        click.option("--spool-dir", type=click.Path(path_type=Path), help="Spool of this host."),
        click.option(
            "--connection",
            envvar="VEEN_CONNECTION",
            type=_FILE,
            required=True,
            help="Connection file of this source's own producer.",
        ),
        json_option,
    ):
        command = option(command)
    return command


@click.group(
    epilog=examples(
        "veen recorder adapter syslog --connection routers.json --udp-port 5514",
        "veen recorder adapter otlp --connection services.json --port 4318",
    )
)
def adapter() -> None:
    """Listen for syslog or OTLP logs; each source has a producer of its own.

    One source of each kind needs no command: `veen up --syslog`, `veen up --otlp`.
    """


@adapter.command(
    epilog=examples(
        "veen recorder adapter syslog --connection routers.json --udp-port 5514 --tcp-port 5514",
        "veen recorder adapter syslog --connection dmz.json --bind 10.0.0.2 --allow 10.0.0.0/24 "
        "--tcp-port 6514",
    )
)
@click.option("--udp-port", type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--tcp-port", type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--event-type", default="syslog.message", show_default=True)
@_listener
def syslog(
    *, connection: Path, spool_dir: Path | None, bind: str, allow: tuple[str, ...],
    udp_port: int | None, tcp_port: int | None, event_type: str, as_json: bool,
) -> None:  # fmt: skip
    """RFC 5424 over UDP and TCP (octet counting or one message for each line)."""
    from recorder.adapters.guard import AllowList, check_bind  # noqa: PLC0415
    from recorder.adapters.process import until_stopped  # noqa: PLC0415
    from recorder.adapters.syslog_server import SyslogAdapter  # noqa: PLC0415
    from recorder.sdk import Recorder  # noqa: PLC0415

    if udp_port is None and tcp_port is None:
        raise click.UsageError("give --udp-port, --tcp-port or both")
    check_bind(bind, allow)
    with Recorder(connection, spool_dir) as recorder:
        made = SyslogAdapter(recorder, event_type=event_type, allow=AllowList(allow))

        async def serve(stop: asyncio.Event) -> None:
            ports = await made.listen(bind, udp_port=udp_port, tcp_port=tcp_port)
            _announce({"adapter": "syslog", "bind": bind, **ports}, as_json=as_json)
            await stop.wait()
            await made.close()

        until_stopped(serve)
        counts = made.counts
    note(f"{counts.recorded} recorded, {counts.refused} refused, {counts.lost} lost")


@adapter.command(
    epilog=examples(
        "veen recorder adapter otlp --connection services.json --port 4318",
        "veen recorder adapter otlp --connection services.json --port 4318 --subject user.id",
    )
)
@click.option("--port", type=click.IntRange(0, 65535), default=4318, show_default=True)
@click.option("--event-type", default="otlp.log", show_default=True)
@click.option(
    "--subject", default="enduser.id", show_default=True, help="Attribute taken as subject_id."
)
@_listener
def otlp(
    *, connection: Path, spool_dir: Path | None, bind: str, allow: tuple[str, ...], port: int,
    event_type: str, subject: str, as_json: bool,
) -> None:  # fmt: skip
    """OTLP/HTTP logs, protobuf and JSON, at /v1/logs."""
    from hub.server.http import HttpLimits, start_server  # noqa: PLC0415
    from recorder.adapters.guard import AllowList, check_bind  # noqa: PLC0415
    from recorder.adapters.otlp_server import OtlpAdapter  # noqa: PLC0415
    from recorder.adapters.process import until_stopped  # noqa: PLC0415
    from recorder.adapters.sockets import bound_tcp  # noqa: PLC0415
    from recorder.sdk import Recorder  # noqa: PLC0415

    check_bind(bind, allow)
    with Recorder(connection, spool_dir) as recorder:
        made = OtlpAdapter(recorder, event_type=event_type, subject=subject, allow=AllowList(allow))

        async def serve(stop: asyncio.Event) -> None:
            sock = bound_tcp(bind, port)
            server = await start_server(made, sock, HttpLimits())
            ports = {"port": sock.getsockname()[1]}
            _announce({"adapter": "otlp", "bind": bind, **ports}, as_json=as_json)
            await stop.wait()
            await server.close(5.0)

        until_stopped(serve)
    note(f"{made.recorded} recorded, {made.refused} refused")


def _announce(document: dict[str, object], *, as_json: bool) -> None:
    words = " ".join(f"{name}={value}" for name, value in document.items())
    emit(document, as_json=as_json, lines=[f"ready {words}"])
    sys.stdout.flush()
