"""`veen recorder record`: one event from flags, or many from standard input [interfaces, Command].

Events go through the SDK and the spool of this host; with a token they go through a gateway.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

import click

from hub.cli.output import Document, emit, emit_line, examples, json_option, note, progress
from hub.cli.output import progress_end as end_progress
from hub.errors import ERRORS, ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.canonical_json import JsonError

_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_LINE_BYTES_MAX: Final = 4 * 1024 * 1024
_TOLD_EVERY: Final = 500

Found = Mapping[str, object]  # an event as a client sends it


class Way(Protocol):
    """How events get into the log; answers come in the order of the events."""

    def send(self, events: Iterable[Found | VeenError]) -> Iterator[Document | VeenError]:
        """One answer for each event."""

    def close(self) -> None:
        """Let go."""


@click.command(
    epilog=examples(
        "veen recorder record --connection shop.json --event-type login.ok --subject-id alice",
        "tail -f app.ndjson | veen recorder record --connection shop.json --json -",
    )
)
@click.argument("source", required=False, type=click.Choice(["-"]), metavar="[-]")
@click.option(
    "--connection", envvar="VEEN_CONNECTION", type=_FILE, help="Connection file of the producer."
)
@click.option("--spool-dir", type=click.Path(path_type=Path), help="Spool of this host.")
@click.option("--token-file", type=_FILE, help="Token: go through a gateway instead of the SDK.")
@click.option("--url", help="Address of the gateway (default: that of the connection file).")
@click.option("--event-type", help="What happened, as the application names it.")
@click.option("--subject-id", help="Whom or what it is about.")
@click.option("--payload", help="Any JSON text.")
@click.option("--origin", help="Where it was seen (default: the producer's name).")
@click.option("--event-time", help="When, like 2026-03-01T09:00:00.250Z (default: now).")
@click.option("--idempotency-key", help="Recording twice with one key records once.")
@click.option("--stream", help="Refused unless the event type belongs there.")
@click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="Seconds to wait.")
@json_option
def record(
    *, source: str | None, connection: Path | None, spool_dir: Path | None,
    token_file: Path | None, url: str | None, timeout_s: float, as_json: bool,
    **flags: str | None,
) -> int:  # fmt: skip
    """Record one event from flags, or one for each line of standard input (-).

    Returns when the receipts are held and verified. What cannot be sent in time stays in the spool
    and goes out with the next command or service that uses it.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if source == "-" and given:
        raise click.UsageError("events come from the flags or from standard input, not from both")
    if source is None and not {"event_type", "subject_id"} <= given.keys():
        raise click.UsageError("give --event-type and --subject-id, or - to read standard input")
    way = _way(connection, spool_dir, token_file, url, timeout_s)
    try:
        if source == "-":
            return _record_lines(way, sys.stdin.buffer, as_json=as_json)
        (answer,) = way.send([_event(given)])
    finally:
        way.close()
    if isinstance(answer, VeenError):
        raise answer
    emit(answer, as_json=as_json)
    return 0


def _way(
    connection: Path | None,
    spool_dir: Path | None,
    token_file: Path | None,
    url: str | None,
    timeout_s: float,
) -> Way:
    from recorder.cli import ways  # noqa: PLC0415

    if token_file is not None:
        return ways.GatewayWay.open(connection, token_file, url, timeout_s)
    if connection is None or url is not None:
        raise click.UsageError("give --connection FILE, or --token-file and --url of a gateway")
    return ways.SdkWay(connection, spool_dir, timeout_s)


def _event(given: dict[str, str]) -> Found:
    from hub import canonical_json  # noqa: PLC0415

    payload = given.pop("payload", None)
    if payload is None:
        return given
    try:
        return {**given, "payload": canonical_json.parse(payload)}
    except canonical_json.JsonError as flaw:
        raise click.UsageError(f"--payload: {flaw.reason}") from flaw


def _record_lines(way: Way, source: BinaryIO, *, as_json: bool) -> int:
    """One answer line for each event; the exit code of the first refusal."""
    count = refused = 0
    exit_code = 0
    for count, answer in enumerate(way.send(_lines(source)), start=1):
        if isinstance(answer, VeenError):
            refused += 1
            exit_code = exit_code or ERRORS[answer.code].exit_code
            document = _refusal(answer)
            if not as_json:
                note(f"line {count}: {document['message']}")
        else:
            document = answer
        if as_json:
            emit_line({"line": count, **document})
        if count % _TOLD_EVERY == 0:
            progress(f"{count - refused} recorded, {refused} refused")
    end_progress()
    note(f"{count - refused} recorded, {refused} refused")
    return exit_code


def _refusal(refusal: VeenError) -> Document:
    from recorder.codes import RecordError  # noqa: PLC0415

    if isinstance(refusal, RecordError):
        return refusal.to_json()
    return {"error_code": str(refusal.code), "message": refusal.detail or str(refusal.code)}


def _lines(source: BinaryIO) -> Iterator[Found | VeenError]:
    """The events of an NDJSON text, each judged by itself; empty lines are skipped."""
    from hub import canonical_json  # noqa: PLC0415

    while line := source.readline(_LINE_BYTES_MAX + 1):
        if not line.strip():
            continue
        if len(line) > _LINE_BYTES_MAX:
            raise VeenError(ErrorCode.SIZE, f"a line of more than {_LINE_BYTES_MAX} bytes")
        try:
            # An object of an event holds its payload, which may be as deep as allowed.
            depth_max = canonical_json.DEPTH_MAX + 1
            found = canonical_json.parse_marked(line, depth_max=depth_max)
        except canonical_json.JsonError as flaw:
            yield _flawed(flaw)
            continue
        yield found  # type: ignore[misc]  # whatever it is, the door judges it


def _flawed(flaw: JsonError) -> VeenError:
    from recorder.codes import Detail, RecordCode, RecordError  # noqa: PLC0415

    if flaw.is_syntax:
        return RecordError(RecordCode.INVALID_JSON, flaw.reason)
    details = [Detail(pointer=flaw.pointer, reason=flaw.reason)]
    return RecordError(RecordCode.INVALID_EVENT, "the event is refused", details=details)
