"""`veen stream` where a recorder runs, and `veen recorder stream`: acts on streams [SDR0 3.2.2].

Streams of the recorder are made by recorded acts when a bundle runs; any other stream, and every
stream without a bundle, is of this state directory alone.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

import click

from hub.cli import stream as local
from hub.cli.output import emit, examples
from hub.cli.place import Place
from hub.errors import VeenError
from recorder.cli.desk import Desk, desk_options

_SENSITIVITY: Final = click.Choice(["low", "medium", "high"])
_EVENT_TYPE = click.option(
    "--event-type", "event_types", multiple=True, help="Event type; may be repeated."
)

stream = click.Group(
    "stream",
    params=local.stream.params,
    callback=local.stream.callback,
    help=local.stream.help,
    epilog=local.stream.epilog,
    invoke_without_command=True,
)


def _is_recorders(name: str) -> bool:
    from recorder.streams import check_name  # noqa: PLC0415

    try:
        check_name(name)
    except VeenError:
        return False
    return True


@stream.command(
    epilog=examples(
        "veen stream create record/app/orders --event-type order.placed --event-type order.paid",
        "veen stream create demo/notes --admin-key admin.key --json",
    )
)
@click.argument("name")
@_EVENT_TYPE
@click.option("--class", "klass", default="log", show_default=True, help="Class of the label.")
@click.option("--sensitivity", type=_SENSITIVITY, help="How much harm a leak would do.")
@click.option("--event-bytes-max", type=click.IntRange(1), help="Largest event in bytes.")
@click.option("--reader", "readers", multiple=True, help="Reader to wrap the key to.")
@click.option("--admin-key", help="Of a stream without a bundle: key of the recorder admin.")
@click.option("--routing-key-file", envvar="VEEN_ROUTING_KEY_FILE",
              type=click.Path(), help="Turns stream names into labels.")  # fmt: skip
@desk_options
def create(
    *, name: str, event_types: tuple[str, ...], klass: str, sensitivity: str | None,
    event_bytes_max: int | None, readers: tuple[str, ...], admin_key: str | None,
    routing_key_file: str | None, as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Create a stream with its reader key; of the recorder where a bundle runs."""
    only_recorder = bool(event_types or sensitivity or event_bytes_max or readers)
    if not desk.is_open() or not _is_recorders(name):
        if only_recorder:
            raise click.UsageError(
                "event types, sensitivity, bounds and readers are for record/app, record/security "
                "and record/infrastructure streams of a running bundle"
            )
        place = _with_routing_key(desk.place, routing_key_file)
        emit(local.create_here(place, name=name, klass=klass, admin_key=admin_key), as_json=as_json)
        return
    args: dict[str, Any] = {"name": name, "class": klass, "event_types": list(event_types)}
    if sensitivity is not None:
        args["sensitivity"] = sensitivity
    if event_bytes_max is not None:
        args["event_bytes_max"] = event_bytes_max
    if readers:
        args["readers"] = list(readers)
    emit(desk.ask("stream.create", args), as_json=as_json)


def _with_routing_key(place: Place, path: str | None) -> Place:
    from dataclasses import replace  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    return place if path is None else replace(place, routing_key_file=Path(path))


@stream.command("list", epilog=examples("veen stream list", "veen stream list --json"))
@desk_options
def list_streams(*, as_json: bool, desk: Desk) -> None:
    """List the streams of this state directory and of its recorder."""
    rows: list[dict[str, Any]] = [dict(one) for one in local.streams_here(desk.place)]
    if desk.is_open():
        rows += desk.rows("streams")
    rows.sort(key=lambda one: str(one["name"]))
    lines = [
        f"{row['name']}  label {str(row['label'])[:16]}..  class {row['class']}  "
        f"reader key {row['key_id']}" + _types(row)
        for row in rows
    ]
    emit({"streams": rows}, as_json=as_json, lines=lines or ["no streams yet"])


def _types(row: dict[str, Any]) -> str:
    types = row.get("event_types")
    return f"  {', '.join(types)}" if types else ""


@stream.command(
    epilog=examples(
        "veen stream keys record/app/orders",
        "veen stream keys record/app/orders --rotate --reason 'yearly'",
    )
)
@click.argument("name")
@click.option("--rotate", is_flag=True, help="Make a new reader key; the old ones still open.")
@click.option("--admin-key", help="Of a stream without a bundle: key of the recorder admin.")
@desk_options
def keys(*, name: str, rotate: bool, admin_key: str | None, as_json: bool, desk: Desk) -> None:
    """Show the reader keys of a stream, or add a new one."""
    here = {one["name"] for one in local.streams_here(desk.place)}
    if name in here or not desk.is_open():
        rows = local.keys_here(desk.place, name, rotate=rotate, admin_key=admin_key)
        local.show_keys(name, rows, as_json=as_json)
        return
    if rotate:
        desk.ask("stream.rotate_key", {"stream": name})
    local.show_keys(name, _keys(desk, name), as_json=as_json)


def _keys(desk: Desk, name: str) -> list[dict[str, object]]:
    from hub.wire.readerkey import ReaderKeyRecord  # noqa: PLC0415
    from recorder.codes import RecordCode, RecordError  # noqa: PLC0415

    found = next((one for one in desk.rows("streams") if one["name"] == name), None)
    if found is None:
        raise RecordError(RecordCode.NOT_FOUND, f"there is no stream {name}")
    records = [ReaderKeyRecord.decode(b64decode(one["record"])) for one in found["keys"]]
    return [
        {
            "key_id": one.key_id,
            "reader_pk": one.reader_pk.hex(),
            "ts": one.ts,
            "secret_held": False,  # the author has it, and the worker
            "record": one.encode().hex(),
        }
        for one in records
    ]


@click.group(
    "stream",
    epilog=examples(
        "veen recorder stream map record/app/orders --event-type order.paid",
        "veen recorder stream migrate rename record/app/old record/app/new --reason 'new team'",
    ),
)
def recorder_stream() -> None:
    """Streams of the recorder: event types, migrations, classes."""


@recorder_stream.command(
    "map",
    epilog=examples(
        "veen recorder stream map record/app/orders --event-type order.paid",
        "veen recorder stream map record/app/orders --event-type a --event-type b --json",
    ),
)
@click.argument("name")
@_EVENT_TYPE
@desk_options
def map_types(*, name: str, event_types: tuple[str, ...], as_json: bool, desk: Desk) -> None:
    """Map new event types to a stream; each type maps to exactly one."""
    if not event_types:
        raise click.UsageError("which types? --event-type TYPE")
    args = {"stream": name, "event_types": list(event_types)}
    emit(desk.ask("stream.map", args), as_json=as_json)


@recorder_stream.group(
    epilog=examples(
        "veen recorder stream migrate rename record/app/old record/app/new --reason 'new team'",
        "veen recorder stream migrate split record/app/all --move record/app/b=x,y --reason r",
    )
)
def migrate() -> None:
    """Move event types to other streams; what was recorded stays where it is."""


@migrate.command(
    epilog=examples(
        "veen recorder stream migrate rename record/app/old record/app/new --reason 'new team'",
        "veen recorder stream migrate rename record/app/a record/app/b --reason r --json",
    )
)
@click.argument("source")
@click.argument("target")
@desk_options
def rename(*, source: str, target: str, as_json: bool, desk: Desk) -> None:
    """Every type of SOURCE goes to TARGET from now on; TARGET is made when it is missing."""
    args = {"kind": "rename", "from": source, "to": target}
    emit(desk.ask("stream.migrate", args), as_json=as_json)


@migrate.command(
    epilog=examples(
        "veen recorder stream migrate split record/app/all --move record/app/bills=bill.sent"
        " --reason 'too many'",
        "veen recorder stream migrate split record/app/all --move record/app/b=x,y --reason r",
    )
)
@click.argument("source")
@click.option("--move", "moves", multiple=True, required=True, metavar="TARGET=TYPE,TYPE",
              help="Types that go to TARGET; may be repeated.")  # fmt: skip
@desk_options
def split(*, source: str, moves: tuple[str, ...], as_json: bool, desk: Desk) -> None:
    """Some types of SOURCE go to other streams from now on."""
    found: dict[str, list[str]] = {}
    for move in moves:
        target, sign, types = move.partition("=")
        if not sign or not types:
            raise click.UsageError("--move is TARGET=TYPE,TYPE")
        found.setdefault(target, []).extend(types.split(","))
    args = {"kind": "split", "from": source, "moves": found}
    emit(desk.ask("stream.migrate", args), as_json=as_json)


@recorder_stream.command(
    "set",
    epilog=examples(
        "veen recorder stream set record/app/orders --sensitivity high",
        "veen recorder stream set record/app/orders --event-bytes-max 4096 --json",
    ),
)
@click.argument("name")
@click.option("--class", "klass", help="Class of the label.")
@click.option("--sensitivity", type=_SENSITIVITY, help="How much harm a leak would do.")
@click.option("--event-bytes-max", type=click.IntRange(1), help="Largest event in bytes.")
@desk_options
def set_stream(
    *, name: str, klass: str | None, sensitivity: str | None, event_bytes_max: int | None,
    as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Change class, sensitivity or size bound of a stream."""
    args: dict[str, Any] = {"stream": name}
    given = {"class": klass, "sensitivity": sensitivity, "event_bytes_max": event_bytes_max}
    args |= {key: value for key, value in given.items() if value is not None}
    emit(desk.ask("stream.class", args), as_json=as_json)
