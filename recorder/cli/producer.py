"""`veen recorder producer`: one key per service, and the file it connects with [SDR0 3.2.3]."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hub.cli.output import emit, examples, note
from hub.cli.place import parse_hex
from recorder.cli import new_connection, producer_connection
from recorder.cli.desk import Desk, desk_options, stream_option

_PATH: Final = click.Path(path_type=Path)
_OUT = click.option("--out", type=_PATH, help="Write the connection file here, mode 0600.")
_KEY_FILE = click.option(
    "--key-file", type=_PATH, help="Keep the key in a file of its own; made if missing."
)
GATEWAY: Final = "gateway"


@click.group(
    epilog=examples(
        "veen recorder producer add shop --stream record/app/orders --out shop.json",
        "veen recorder producer list",
    )
)
def producer() -> None:
    """Producers: services that record events, each with a key of its own."""


@producer.command(
    epilog=examples(
        "veen recorder producer add shop --stream record/app/orders --out shop.json",
        "veen recorder producer add till --stream record/app/orders --gateway --json",
    )
)
@click.argument("name")
@stream_option
@click.option("--gateway", is_flag=True, help="The gateway holds the key; use API tokens.")
@click.option("--rate", "rate_per_s", type=click.IntRange(1), help="Events per second at most.")
@click.option("--burst", "rate_burst", type=click.IntRange(1), help="Events at once at most.")
@_OUT
@_KEY_FILE
@desk_options
def add(
    *, name: str, streams: tuple[str, ...], gateway: bool, rate_per_s: int | None,
    rate_burst: int | None, out: Path | None, key_file: Path | None, as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Add a producer that appends to the named streams and may do nothing else."""
    if not streams:
        raise click.UsageError("name the streams it may write: --stream NAME")
    args: dict[str, Any] = {"name": name, "streams": list(streams)}
    if rate_per_s is not None:
        args["rate_per_s"] = rate_per_s
    if rate_burst is not None:
        args["rate_burst"] = rate_burst
    if gateway:
        _refuse_files(out, key_file)
        result = desk.ask("producer.add", {**args, "held": GATEWAY})
        emit(_summary(result), as_json=as_json)
        note(f"`veen token create --role producer {name}` makes a token for it")
        return
    _give(desk, "producer.add", args, out=out, key_file=key_file, as_json=as_json)


def _refuse_files(out: Path | None, key_file: Path | None) -> None:
    if out is not None or key_file is not None:
        raise click.UsageError("the key of a gateway-held producer is in no file")


def _give(
    desk: Desk, verb: str, args: dict[str, Any], *, out: Path | None, key_file: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    if out is None:
        raise click.UsageError("--out FILE: the connection file has to go somewhere")
    result = new_connection.obtain(desk, verb, args, out=out, key_file=key_file)
    emit({**_summary(result), "connection": str(out)}, as_json=as_json)


def _summary(result: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {
        "producer": result["producer"],
        "principal": result["principal"],
        "held": result["held"],
        "streams": [one["name"] for one in result["streams"]],
        "auth_ref": result["auth_ref"],
        "act_id": result["act_id"],
        "event": result["event"],
    }
    if "old_principal" in result:
        found["old_principal"] = result["old_principal"]
    return found


@producer.command(
    "list",
    epilog=examples("veen recorder producer list", "veen recorder producer list --all --json"),
)
@click.option("--all", "everything", is_flag=True, help="Also keys that were rotated or revoked.")
@desk_options
def list_producers(*, everything: bool, as_json: bool, desk: Desk) -> None:
    """List producers and their streams."""
    rows = [one for one in desk.rows("producers") if everything or one["ended_at"] is None]
    rows.sort(key=lambda one: (one["name"], one["created_at"]))
    lines = [
        f"{one['name']}  {one['principal'][:16]}..  {one['held']}  {', '.join(one['streams'])}"
        + (f"  ended: {one['ended_because']}" if one["ended_at"] else "")
        for one in rows
    ]
    emit({"producers": rows}, as_json=as_json, lines=lines or ["no producers yet"])


@producer.command(
    epilog=examples(
        "veen recorder producer rotate shop --out shop.json --reason 'yearly'",
        "veen recorder producer rotate till --json",
    )
)
@click.argument("name")
@click.option("--keep-old", is_flag=True, help="Revoke the old key later, with `revoke --key`.")
@_OUT
@_KEY_FILE
@desk_options
def rotate(
    *, name: str, keep_old: bool, out: Path | None, key_file: Path | None, as_json: bool, desk: Desk
) -> None:
    """Give a producer a new key and capability; the event links both keys."""
    args: dict[str, Any] = {"name": name, "keep_old": keep_old}
    held = {one["name"]: one["held"] for one in desk.rows("producers") if one["ended_at"] is None}
    if held.get(name) == GATEWAY:
        _refuse_files(out, key_file)
        emit(_summary(desk.ask("producer.rotate", args)), as_json=as_json)
        return
    _give(desk, "producer.rotate", args, out=out, key_file=key_file, as_json=as_json)


@producer.command(
    epilog=examples(
        "veen recorder producer revoke shop --reason 'decommissioned'",
        "veen recorder producer revoke --key HEX --json",
    )
)
@click.argument("name", required=False)
@click.option("--key", "principal", metavar="HEX", help="One key, also a rotated one.")
@desk_options
def revoke(*, name: str | None, principal: str | None, as_json: bool, desk: Desk) -> None:
    """Have the hub refuse a producer from now on."""
    if (name is None) == (principal is None):
        raise click.UsageError("give a name, or --key")
    if principal is not None:
        args = {"principal": parse_hex(principal, "--key").hex()}
    else:
        args = {"name": str(name)}
    emit(desk.ask("producer.revoke", args), as_json=as_json)


@producer.command(
    epilog=examples(
        "veen recorder producer connection shop --update shop.json",
        "veen recorder producer connection shop --out news.json --json",
    )
)
@click.argument("name")
@click.option("--update", "held", type=_PATH, help="Rewrite this connection file, key untouched.")
@click.option("--from", "given", type=_PATH, help="With --update: the file that --out wrote.")
@click.option("--out", type=_PATH, help="Write the streams as they are now, without a key.")
@click.option("--key-file", type=_PATH, help="With --out: where the owner of the file has its key.")
@desk_options
def connection(
    *, name: str, held: Path | None, given: Path | None, out: Path | None, key_file: Path | None,
    as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Bring newer reader keys, event types and size bounds into a connection file.

    A running SDK, handler or adapter reads the file again within seconds. With --from nothing is
    asked: the administrator ran --out elsewhere, and only signed newer reader keys are taken.
    """
    if (held is None) == (out is None):
        raise click.UsageError("give --update FILE or --out FILE")
    if held is not None:
        if key_file is not None:
            raise click.UsageError("--key-file goes with --out: --update keeps the key")
        found = producer_connection.update(desk, name, held, given)
    else:
        assert out is not None
        if given is not None:
            raise click.UsageError("--from goes with --update")
        found = producer_connection.write(desk, name, out, key_file)
    keys = [f"{one['name']}  key {one['key_id']}" for one in found["streams"]]  # type: ignore[attr-defined]
    emit(found, as_json=as_json, lines=keys)
