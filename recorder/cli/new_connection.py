"""Has a key of ours admitted as a producer's and writes its connection file [interfaces]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hub.crypto.signing import SigningKey
    from recorder.cli.desk import Desk


def obtain(
    desk: Desk, verb: str, args: dict[str, Any], *, out: Path, key_file: Path | None = None
) -> dict[str, Any]:
    """The result of the act, its file written.

    The key is on disk before anyone is asked, so that an answer that never comes costs no key: the
    same call again finds it and waits for the same act.
    """
    kept = key_file or out.with_name(out.name + ".key")
    key = _key(kept)
    principal = key.public.hex()
    asked = _asked_before(desk, verb, principal)
    result = desk.wait(asked) if asked else desk.ask(verb, {**args, "principal": principal})
    _write(out, result, key, key_file)
    if key_file is None:
        kept.unlink()  # it stands in the connection file now
    return result


def _key(path: Path) -> SigningKey:
    from hub import keystore  # noqa: PLC0415
    from hub.crypto.signing import SigningKey  # noqa: PLC0415

    if path.exists():
        return SigningKey(keystore.read_key_file(path))
    key = SigningKey.generate()
    keystore.write_key_file(path, key.seed)
    return key


def _asked_before(desk: Desk, verb: str, principal: str) -> str | None:
    """The act of an earlier run of this command that has not failed."""
    for act in desk.rows("acts"):
        is_ours = act["verb"] == verb and act["args"].get("principal") == principal
        if is_ours and act["state"] != "failed":
            return str(act["act_id"])
    return None


def _write(out: Path, result: dict[str, Any], key: SigningKey, key_file: Path | None) -> None:
    from recorder.cli import connection_file  # noqa: PLC0415
    from recorder.connection import ProducerKey  # noqa: PLC0415

    if key_file is None:
        held = ProducerKey(name=result["producer"], key=key.seed)
    else:
        held = ProducerKey(name=result["producer"], key_file=str(key_file.absolute()))
    connection_file.write(out, result, held)
