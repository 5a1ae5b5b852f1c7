"""Acts of a running hub over its control socket; each changing one is recorded [interfaces]."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

import click

from hub.cli.output import emit, examples, json_option, note, progress, progress_end
from hub.cli.place import Place, data_dir_option, label_options

_PATH = click.Path(path_type=Path)
TRUST_FOLLOWS_S: Final = 5.0
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@click.command(epilog=examples("veen hub checkpoint", "veen hub checkpoint --out m.manifest"))
@click.option("--out", type=_PATH, help="Write the manifest to this file.")
@data_dir_option
@json_option
def checkpoint(*, out: Path | None, as_json: bool, data_dir: Path) -> None:
    """Make a signed checkpoint manifest of every label now."""
    from hub import control  # noqa: PLC0415

    answer = control.call(data_dir, "checkpoint")
    if out is not None and "manifest" in answer:
        out.write_bytes(bytes.fromhex(answer["manifest"]))
    emit(answer, as_json=as_json)


@click.group(epilog=examples("veen hub key rotate", "veen hub key rotate --out handover.rotation"))
def key() -> None:
    """The hub's signing key."""


@key.command(epilog=examples("veen hub key rotate", "veen hub key rotate --out handover.rotation"))
@click.option("--out", type=_PATH, help="Write the rotation record to this file.")
@data_dir_option
@json_option
def rotate(*, out: Path | None, as_json: bool, data_dir: Path) -> None:
    """Hand the log over to a new key, with a record signed by both."""
    from hub import control  # noqa: PLC0415

    answer = control.call(data_dir, "rotate")
    if out is not None:
        out.write_bytes(bytes.fromhex(answer["record"]))
    emit(answer, as_json=as_json)
    if _is_followed(Place(root=data_dir.parent), answer["new_pk"]):
        note("the trust file of this directory names the new key; update other pins")
    else:
        note("update trust files and pins: old receipts count under the manifest named here")


def _is_followed(place: Place, new_pk: str) -> bool:
    """Whether a running `veen up` has taken the key over; it looks several times a second."""
    end = time.monotonic() + TRUST_FOLLOWS_S
    while (place.root / "run" / "status.json").exists() and time.monotonic() < end:
        trust = place.trust()
        if trust is None:
            return False
        if any(hub.active is not None and hub.active.pk.hex() == new_pk for hub in trust.hubs):
            return True
        time.sleep(0.05)
    return False


@click.group(epilog=examples("veen hub token add --name auditor --all", "veen hub token list"))
def token() -> None:
    """Bearer tokens for reads."""


@token.command(
    epilog=examples(
        "veen hub token add --name auditor --all",
        "veen hub token add --name web --stream record/demo/notes --out web.token",
    )
)
@click.option("--name", required=True, help="What the token is called.")
@click.option("--stream", "streams", multiple=True, help="Stream name; may be repeated.")
@click.option("--label", "labels", multiple=True, metavar="HEX", help="Label; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Every stream, attachments and metrics.")
@click.option("--out", type=_PATH, help="Write the token to this file, mode 0600.")
@data_dir_option
@json_option
def add(
    *, name: str, streams: tuple[str, ...], labels: tuple[str, ...], everything: bool,
    out: Path | None, as_json: bool, data_dir: Path,
) -> None:  # fmt: skip
    """Make a token; it is shown once, the hub keeps only its hash."""
    from hub import control  # noqa: PLC0415

    if everything == bool(streams or labels):
        raise click.UsageError("give --all, or streams and labels")
    arguments: dict[str, Any] = {"name": name}
    if everything:
        arguments["all"] = True
    else:
        arguments |= {"streams": list(streams), "labels": list(labels)}
    answer = control.call(data_dir, "token_add", **arguments)
    if out is not None:
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(str(answer["token"]) + "\n")
        answer["token"] = f"written to {out}"
    emit(answer, as_json=as_json)


@token.command("list", epilog=examples("veen hub token list", "veen hub token list --json"))
@data_dir_option
@json_option
def list_tokens(*, as_json: bool, data_dir: Path) -> None:
    """List names and scopes of tokens."""
    from hub import control  # noqa: PLC0415

    answer = control.call(data_dir, "token_list")
    rows = answer.get("tokens", [])
    lines = [json.dumps(row, ensure_ascii=False) for row in rows] or ["no tokens"]
    emit(answer, as_json=as_json, lines=lines)


@token.command(
    "revoke", epilog=examples("veen hub token revoke web", "veen hub token revoke web --json")
)
@click.argument("name")
@data_dir_option
@json_option
def revoke_token(*, name: str, as_json: bool, data_dir: Path) -> None:
    """Revoke a token at once."""
    from hub import control  # noqa: PLC0415

    emit(control.call(data_dir, "token_revoke", name=name), as_json=as_json)


def _seconds(age: str) -> int:
    number, unit = age[:-1], age[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()):
        raise click.UsageError("an age is a number with d, h, m or s, such as 30d")
    return int(number) * _UNITS[unit]


@click.command(
    epilog=examples(
        "veen hub prune --label HEX --before 1000 --reason 'ticket 7'",
        "veen hub prune --stream record/demo/notes --older-than 30d --reason 'policy 4' --json",
    )
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--before", "before_seq", type=click.IntRange(1),
              help="Payloads of earlier sequences go.")  # fmt: skip
@click.option("--older-than", "age", metavar="AGE", help="Payloads older than 30d, 12h or 90s go.")
@click.option("--reason", required=True, help="Recorded with the act.")
@click.option("--data-dir", type=_PATH, help="The hub's data directory.")
@label_options
@json_option
def prune(
    *, name: str | None, label: str | None, before_seq: int | None, age: str | None, reason: str,
    data_dir: Path | None, as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Free the payload bytes of old messages; receipts and proofs remain."""
    from hub import control  # noqa: PLC0415

    if (before_seq is None) == (age is None):
        raise click.UsageError("give exactly one of --before and --older-than")
    chosen = {"before_seq": before_seq} if age is None else {"older_than_s": _seconds(age)}

    def show(figures: dict[str, Any]) -> None:
        progress(" ".join(f"{name} {value}" for name, value in figures.items()))

    answer = control.call(
        data_dir or place.root / "hub",
        "prune",
        on_progress=show,
        timeout_s=3600,
        label=place.label(name, label).hex(),
        reason=reason,
        **chosen,
    )
    progress_end()
    emit(answer, as_json=as_json)


@click.command(
    epilog=examples(
        "veen hub retention",
        "veen hub retention --stream demo/notes --keep 30d",
        "veen hub retention --class telemetry --keep 7d --keep-messages 100000",
    )
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--class", "label_class", metavar="CLASS", help="Every stream of this class.")
@click.option("--keep", "age", metavar="AGE", help="Keep payloads for 30d, 12h or 90s.")
@click.option("--keep-messages", type=click.IntRange(0), help="Keep the newest so many.")
@click.option("--off", is_flag=True, help="Take the policy back; everything stays.")
@click.option("--data-dir", type=_PATH, help="The hub's data directory.")
@label_options
@json_option
def retention(
    *, name: str | None, label: str | None, label_class: str | None, age: str | None,
    keep_messages: int | None, off: bool, data_dir: Path | None, as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Show or set which payloads the hub keeps; once a day it prunes the others.

    A payload stays while any bound keeps it, and always until its stream's retention_hint is over.
    """
    from hub import control  # noqa: PLC0415

    folder = data_dir or place.root / "hub"
    if name is None and label is None and label_class is None:
        if age is not None or keep_messages is not None or off:
            raise click.UsageError("which stream, label or class?")
        answer = control.call(folder, "retention_list")
    else:
        if label_class is not None and (name is not None or label is not None):
            raise click.UsageError("give a stream, a label or a class")
        if off == (age is not None or keep_messages is not None):
            raise click.UsageError("give --keep, --keep-messages or both; or --off")
        target: dict[str, Any] = {"class": label_class}
        if label_class is None:
            target = {"label": place.label(name, label).hex()}
        answer = control.call(
            folder,
            "retention_set",
            keep_s=None if age is None else _seconds(age),
            keep_messages=keep_messages,
            **target,
        )
    lines = [json.dumps(row) for row in answer["policies"]] or ["no policy: every payload stays"]
    emit(answer, as_json=as_json, lines=lines)


@click.group(epilog=examples("veen hub clock accept", "veen hub clock accept --json"))
def clock() -> None:
    """The hub's clock."""


@clock.command(epilog=examples("veen hub clock accept", "veen hub clock accept --json"))
@data_dir_option
@json_option
def accept(*, as_json: bool, data_dir: Path) -> None:
    """Accept the machine's present time after a jump that stopped writing."""
    from hub import control  # noqa: PLC0415

    emit(control.call(data_dir, "clock_accept"), as_json=as_json)
