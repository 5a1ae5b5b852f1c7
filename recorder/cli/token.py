"""`veen token`: API tokens, each of one role, shown once [interfaces]."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Final

import click

from hub.cli.output import emit, examples, note
from hub.errors import ErrorCode, VeenError
from recorder.cli.desk import Desk, desk_options, stream_option

_PATH: Final = click.Path(path_type=Path)


@click.group(
    epilog=examples("veen token create --role producer till --out till.token", "veen token list")
)
def token() -> None:
    """API tokens of producers, readers and administrators."""


@token.command(
    epilog=examples(
        "veen token create --role producer till --out till.token",
        "veen token create --role reader auditor --stream record/app/orders --json",
    )
)
@click.argument("name", required=False)
@click.option("--role", type=click.Choice(["producer", "reader", "admin"]), required=True,
              help="Whose token it is; never two roles at once.")  # fmt: skip
@stream_option
@click.option("--all", "everything", is_flag=True, help="A reader of every stream.")
@click.option("--out", type=_PATH, help="Write the token to this file, mode 0600.")
@desk_options
def create(
    *, name: str | None, role: str, streams: tuple[str, ...], everything: bool, out: Path | None,
    as_json: bool, desk: Desk,
) -> None:  # fmt: skip
    """Make a token; NAME is its producer, or what the token is called."""
    from hub import keystore  # noqa: PLC0415
    from recorder.tokens import hash_of, new_token  # noqa: PLC0415

    if role == "producer" and name is None:
        raise click.UsageError("whose token? name the producer")
    if role == "reader" and bool(streams) == everything:
        raise click.UsageError("a reader's token names streams, or says --all")
    text = new_token()  # made here: the web process learns its hash only
    args: dict[str, Any] = {"role": role, "sha256": hash_of(text), "name": name or role}
    if role == "producer":
        args["producer"] = name
    if role == "reader":
        args |= {"streams": list(streams), "all": everything}
    result = desk.ask("token.create", args)
    found: dict[str, object] = {
        "token_id": result["token_id"],
        "role": role,
        "name": args["name"],
        "act_id": result["act_id"],
    }
    if out is None:
        found["token"] = text
        note("the token is shown only now")
    else:
        keystore.write_private(out, text.encode() + b"\n")
        found["file"] = str(out)
    emit(found, as_json=as_json)


@token.command("list", epilog=examples("veen token list", "veen token list --revoked --json"))
@click.option("--revoked", is_flag=True, help="Also those that are over.")
@desk_options
def list_tokens(*, revoked: bool, as_json: bool, desk: Desk) -> None:
    """List tokens; what they are is known to their holders alone."""
    rows = [one for one in desk.rows("tokens") if revoked or one["revoked_at"] is None]
    lines = [f"{one['token_id']}  {one['role']:<8}  {one['name']}  {_opens(one)}" for one in rows]
    emit({"tokens": rows}, as_json=as_json, lines=lines or ["no tokens yet"])


def _opens(row: dict[str, Any]) -> str:
    if row["role"] == "producer":
        return f"records as {row['producer']}"
    if row["role"] == "admin":
        return "administers"
    return "reads everything" if row["all"] else f"reads {', '.join(row['streams'])}"


@token.command(epilog=examples("veen token revoke auditor", "veen token revoke ID --json"))
@click.argument("which", metavar="ID|NAME")
@desk_options
def revoke(*, which: str, as_json: bool, desk: Desk) -> None:
    """End a token, by id or by a name that only one token in force has."""
    emit(desk.ask("token.revoke", {"token_id": _id(desk, which)}), as_json=as_json)


def _id(desk: Desk, which: str) -> str:
    try:
        return str(uuid.UUID(which))
    except ValueError:
        pass
    rows = [one for one in desk.rows("tokens") if one["revoked_at"] is None]
    found = [str(one["token_id"]) for one in rows if one["name"] == which]
    if len(found) != 1:
        kind = ErrorCode.NOTFOUND if not found else ErrorCode.POLICY
        raise VeenError(kind, f"{len(found)} tokens in force are called {which}; name the id")
    return found[0]
