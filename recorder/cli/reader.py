"""`veen recorder reader`: who is given the secrets of which streams [wire: readers]."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hub.cli.output import emit, examples, note
from hub.cli.place import parse_hex
from recorder.cli.desk import Desk, desk_options, stream_option

_PATH: Final = click.Path(path_type=Path)


@click.group(
    epilog=examples(
        "veen recorder reader add auditor --dh-pk HEX --all --json",
        "veen recorder reader list",
    )
)
def reader() -> None:
    """Readers: keys to which stream secrets are wrapped."""


@reader.command(
    epilog=examples(
        "veen recorder reader add partner --dh-pk HEX --stream record/app/orders --out p.json",
        "veen recorder reader add auditor --dh-pk HEX --all --json",
    )
)
@click.argument("name")
@click.option("--dh-pk", required=True, metavar="HEX", help="The reader's X25519 key (`veen id`).")
@stream_option
@click.option("--all", "everything", is_flag=True, help="Every stream there is now.")
@click.option("--out", type=_PATH, help="Write the reader's connection file here, mode 0600.")
@desk_options
def add(
    *, name: str, dh_pk: str, streams: tuple[str, ...], everything: bool, out: Path | None,
    as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Wrap every key of the streams to a reader; the answer holds the wrapped secrets."""
    args: dict[str, Any] = {
        "name": name,
        "dh_pk": parse_hex(dh_pk, "--dh-pk").hex(),
        "streams": list(streams),
        "all": everything,
    }
    result = desk.ask("reader.add", args)
    if out is not None:
        from recorder.cli import connection_file  # noqa: PLC0415

        connection_file.write(out, result)
        note(f"the connection file is {out}; wrapped secrets are in the answer (--json)")
    lines = [
        f"{one['name']}  {len(one['keys'])} keys wrapped to {result['reader']}"
        for one in result["streams"]
    ]
    emit(result, as_json=as_json, lines=lines)


@reader.command(
    "list", epilog=examples("veen recorder reader list", "veen recorder reader list --json")
)
@desk_options
def list_readers(*, as_json: bool, desk: Desk) -> None:
    """List readers and what they open."""
    rows = desk.rows("readers")
    lines = [
        f"{one['name']}  {one['dh_pk'][:16]}..  {len(one['streams'])} streams"
        + ("  revoked" if one["revoked_at"] else "")
        for one in rows
    ]
    emit({"readers": rows}, as_json=as_json, lines=lines)


@reader.command(
    epilog=examples(
        "veen recorder reader revoke partner --reason 'contract over'",
        "veen recorder reader revoke partner --keep-keys --json",
    )
)
@click.argument("name")
@click.option("--keep-keys", is_flag=True, help="Give its streams no new keys.")
@desk_options
def revoke(*, name: str, keep_keys: bool, as_json: bool, desk: Desk) -> None:
    """Wrap nothing new to a reader, and give the streams it could open new keys."""
    emit(desk.ask("reader.revoke", {"name": name, "keep_keys": keep_keys}), as_json=as_json)
