"""`veen recorder replay`: events in order, verified before they are shown [SDR0 3.2.5].

Loaded by `veen recorder`; imports no framework, so it starts at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hub.cli.output import emit_line, escape, examples, json_option, note, progress, progress_end
from hub.cli.place import Place, parse_hex, parse_key, place_options
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.types import PublicKey
    from recorder.connection import Connection
    from recorder.event import UnixMillis
    from recorder.replay_client import End, ReplayedEvent, Replaying

_PATH = click.Path(path_type=Path)
_EVERY = 1000
EXIT_NOT_READY = 9


@click.command(
    epilog=examples(
        "veen recorder replay record/app/shop --from 100 --to 200",
        "veen recorder replay record/app/shop record/security/iam --start 2026-03-01T09:00:00Z"
        " --json > window.ndjson",
    )
)
@click.argument("streams", nargs=-1, required=True, metavar="STREAM...")
@click.option("--from", "from_seq", type=click.IntRange(1), help="First sequence, of one stream.")
@click.option("--to", "to_seq", type=click.IntRange(1), help="Last sequence, inclusive.")
@click.option("--start", metavar="TIME", help="First commit time, inclusive.")
@click.option("--end", metavar="TIME", help="Last commit time, inclusive.")
@click.option("--manifest", metavar="HEX", help="Prove against this manifest, not the newest.")
@click.option("--with-proofs", is_flag=True, help="With --json: messages and proofs too.")
@click.option("--verify/--no-verify", default=True, help="Check everything (the default), or not.")
@click.option("--connection", type=_PATH, help="A reader's connection file: URLs, key, labels.")
@click.option("--web-url", envvar="VEEN_WEB_URL", metavar="URL", help="Address of the API.")
@click.option("--hub-pk", envvar="VEEN_HUB_PK", metavar="HEX", help="The pinned key of the hub.")
@click.option("--token-file", envvar="VEEN_API_TOKEN_FILE", type=_PATH, help="File with a token.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, help="Seconds to wait.")
@place_options
@json_option
def replay(
    *,
    place: Place,
    streams: tuple[str, ...],
    from_seq: int | None,
    to_seq: int | None,
    start: str | None,
    end: str | None,
    manifest: str | None,
    with_proofs: bool,
    verify: bool,
    connection: Path | None,
    web_url: str | None,
    hub_pk: str | None,
    token_file: Path | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Print the events of streams by range or window, each verified against the pinned hub key."""
    from hub.types import ManifestId  # noqa: PLC0415
    from recorder import replay_client  # noqa: PLC0415
    from recorder.codes import RecordCode, RecordError  # noqa: PLC0415

    known = _connection(connection)
    found = replay_client.replay(
        _web_url(place, known, web_url),
        _token(place, token_file),
        streams=streams,
        hub_pk=_pinned(place, known, hub_pk) if verify else None,
        from_seq=from_seq,
        to_seq=to_seq,
        start_ms=_time(start, "--start"),
        end_ms=_time(end, "--end"),
        manifest_id=None if manifest is None else ManifestId(parse_hex(manifest, "--manifest")),
        verify=verify,
        with_proofs=with_proofs,
        labels={} if known is None else {one.name: one.label for one in known.streams},
        timeout_s=timeout_s,
        patience_s=timeout_s,
    )
    try:
        _show(found, as_json=as_json, with_proofs=with_proofs)
    except RecordError as refusal:
        if refusal.error_code is not RecordCode.LAKE_BEHIND:
            raise
        message = f"{refusal.message} Try again, or wait longer with --timeout."
        note(f"veen: {message}")
        if as_json:  # A stream that failed ends in a line that says why.
            emit_line({"error": {"code": refusal.error_code.value, "message": message}})
        return EXIT_NOT_READY
    assert found.end is not None
    _summarize(found.end, is_verified=verify, as_json=as_json)
    return 0


def _show(found: Replaying, *, as_json: bool, with_proofs: bool) -> None:
    shown = 0
    try:
        for event in found:
            if as_json:
                click.echo(event.to_json(with_proofs=with_proofs))
            else:
                click.echo(escape(_sentence(event)))
            shown += 1
            if shown % _EVERY == 0:
                progress(f"{shown} events")
    finally:
        progress_end()


def _sentence(event: ReplayedEvent) -> str:
    line = event.line
    what = line.error or f"{line.event_type} {line.subject_id}"
    mark = "proven" if event.is_proven else "-"
    payload = bytes(line.payload).decode().replace("\n", " ")
    where = f"{line.stream} {line.hub_commit_seq}"
    return f"{where}  {line.hub_commit_time}  {mark:6}  {what}  {payload}"


def _summarize(end: End, *, is_verified: bool, as_json: bool) -> None:
    if as_json:
        import msgspec  # noqa: PLC0415

        emit_line({"end": msgspec.to_builtins(end)})
    for one in end.coverage:
        note(f"{one.stream}: {one.from_seq} to {one.to_seq}, root {(one.mmr_root or '-')[:16]}")
    word = "verified" if is_verified else "NOT verified"
    unproven = f", {end.unproven} above the manifest" if end.unproven else ""
    against = f" against manifest {end.manifest_id[:16]}" if end.manifest_id else ""
    note(f"{end.count} events {word}{against}{unproven}")


def _connection(path: Path | None) -> Connection | None:
    if path is None:
        return None
    from hub import keystore  # noqa: PLC0415
    from recorder.connection import Connection  # noqa: PLC0415

    return Connection.parse(keystore.read_private(path))


def _web_url(place: Place, known: Connection | None, given: str | None) -> str:
    found = given or (known.web_url if known else None) or place.running().get("web_url")
    if not found:
        raise click.UsageError("which API? give --web-url or --connection, or run `veen up`")
    return str(found)


def _pinned(place: Place, known: Connection | None, given: str | None) -> PublicKey:
    if given is not None:
        return parse_key(given, "--hub-pk")
    if known is not None:
        return known.hub_pk
    found = place.running().get("hub_pk")
    if not found:
        detail = "no pinned hub key: give --hub-pk or --connection, or run `veen up`"
        raise VeenError(ErrorCode.TRUST, detail)
    return parse_key(str(found), "hub_pk")


def _token(place: Place, given: Path | None) -> str:
    from hub import keystore  # noqa: PLC0415

    path = given or place.secret("admin.token")
    if given is None and not path.exists():
        raise click.UsageError("reading needs a token: give --token-file")
    return keystore.read_private(path).decode("ascii", "replace").strip()


def _time(text: str | None, name: str) -> UnixMillis | None:
    if text is None:
        return None
    from recorder.event import parse_time  # noqa: PLC0415

    try:
        return parse_time(text, fraction_digits_max=3)
    except ValueError as flaw:
        raise click.UsageError(f"{name}: {flaw}") from flaw
