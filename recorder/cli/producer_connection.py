"""`veen recorder producer connection`: a connection file follows its streams [SDR0 3.2.2; wire].

The key of a file-held producer is with its owner and no administrator has it; so an administrator
writes what changed (--out), and whoever holds the key takes it over (--update).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from recorder.cli.desk import Desk
    from recorder.connection import Connection, StreamEntry

_ADDED_BY: Final = ("producer.add", "producer.rotate")


def update(desk: Desk, name: str, path: Path, given: Path | None) -> dict[str, object]:
    """Rewrite a connection file in place, its key untouched; what it says now."""
    from hub import keystore  # noqa: PLC0415
    from recorder import connection_renewal, sdk_standing  # noqa: PLC0415

    held = sdk_standing.read_connection(path)
    assert held.producer is not None
    if held.producer.name != name:
        raise click.UsageError(f"{path} is the file of {held.producer.name}, not of {name}")
    if given is None:
        news: tuple[StreamEntry, ...] = tuple(connection_renewal.of_rows(desk.rows("streams")))
    else:
        news = connection_renewal.of_another(held, _read(given))
    found = connection_renewal.renewed(held, news)
    if found != held:
        keystore.write_private(path, found.render())
    return _shown(found, path, is_changed=found != held)


def write(desk: Desk, name: str, out: Path, key_file: Path | None) -> dict[str, object]:
    """A file with the streams as they are now: with the place of the key, or for `--update`."""
    from recorder import connection_renewal  # noqa: PLC0415
    from recorder.cli import connection_file  # noqa: PLC0415
    from recorder.connection import ProducerKey  # noqa: PLC0415

    held = None if key_file is None else ProducerKey(name=name, key_file=str(key_file))
    made = connection_file.connection_of(_result(desk, name), held)
    news = connection_renewal.of_rows(desk.rows("streams"))
    found = connection_renewal.renewed(made, news)
    _refuse_to_replace_a_key(out)
    from hub import keystore  # noqa: PLC0415

    keystore.write_private(out, found.render())
    return _shown(found, out, is_changed=True)


def _refuse_to_replace_a_key(out: Path) -> None:
    held = _read(out).producer if out.exists() else None
    if held is not None and held.key is not None:
        detail = f"{out} holds the key of {held.name}; `--update {out}` keeps it"
        raise VeenError(ErrorCode.CONFIG, detail)


def _read(path: Path) -> Connection:
    from hub import keystore  # noqa: PLC0415
    from recorder.connection import Connection  # noqa: PLC0415

    return Connection.parse(keystore.read_private(path))


def _result(desk: Desk, name: str) -> dict[str, Any]:
    """What the act that made the producer's present key answered."""
    active = [one for one in desk.rows("producers") if one["name"] == name and not one["ended_at"]]
    if not active:
        raise click.UsageError(f"there is no active producer {name}")
    if active[0]["held"] != "file":
        raise click.UsageError(f"the gateway holds the key of {name} and follows by itself")
    for act in desk.rows("acts"):
        is_its = act["verb"] in _ADDED_BY and act["state"] == "done"
        if is_its and act["result"].get("principal") == active[0]["principal"]:
            found: dict[str, Any] = act["result"]
            return found
    detail = f"the act that made {name} is not known any more; use --update with its file"
    raise VeenError(ErrorCode.NOTFOUND, detail)


def _shown(found: Connection, path: Path, *, is_changed: bool) -> dict[str, object]:
    return {
        "connection": str(path),
        "changed": is_changed,
        "streams": [
            {
                "name": one.name,
                "key_id": one.reader_key.key_id,
                "event_types": list(one.event_types),
                "event_bytes_max": one.event_bytes_max,
            }
            for one in found.streams
        ],
    }
