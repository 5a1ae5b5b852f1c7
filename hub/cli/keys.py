"""`veen keygen` and `veen id`: keys in a sealed keystore, and their card [interfaces]."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hub.cli.output import emit, examples, json_option, note
from hub.cli.place import DH, SIGN, Place, place_options
from hub.errors import ErrorCode, VeenError


@click.command(
    epilog=examples(
        "veen keygen --name alice              a keystore below the state directory",
        "veen keygen --out alice.key --plain   a hex key file, mode 0600, not sealed",
    )
)
@click.option("--out", type=click.Path(path_type=Path), help="File to write.")
@click.option("--name", help="Keep it below the state directory under this name.")
@click.option("--plain", is_flag=True, help="A hex key file without passphrase (signing only).")
@click.option("--reader", is_flag=True, help="With --plain: an X25519 reader key instead.")
@click.option("--force", is_flag=True, help="Replace an existing key; the old one is lost.")
@place_options
@json_option
def keygen(
    *, out: Path | None, name: str | None, plain: bool, reader: bool, force: bool, as_json: bool,
    place: Place,
) -> None:  # fmt: skip
    """Make a signing key and an X25519 key in a sealed keystore."""
    from hub import keystore  # noqa: PLC0415
    from hub.crypto.hpke import DhSecret  # noqa: PLC0415
    from hub.crypto.signing import SigningKey  # noqa: PLC0415

    if (out is None) == (name is None):
        raise click.UsageError("give exactly one of --out FILE and --name NAME")
    if reader and not plain:
        raise click.UsageError("--reader goes with --plain; a keystore always holds both keys")
    path = out if out is not None else _named(place, str(name))
    if path.is_dir():
        path = path / "client.key"
    if path.exists() and not force:
        raise VeenError(ErrorCode.POLICY, f"{path} exists; a lost key cannot be made again")
    key, dh = SigningKey.generate(), DhSecret.generate()
    if plain:
        keystore.write_key_file(path, dh.secret if reader else key.seed)
    else:
        secrets = {SIGN: key.seed, DH: dh.secret}
        keystore.write(path, secrets, place.passphrase(confirm=True))
    document: dict[str, object] = {"file": str(path), "sealed": not plain}
    if not reader:
        document["client_id"] = key.public.hex()
    if reader or not plain:
        document["dh_pk"] = dh.public.hex()
    emit(document, as_json=as_json)


def _named(place: Place, name: str) -> Path:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise click.UsageError("a key's name is letters, digits, '-' and '_'")
    return place.key_path(name)


@click.command(
    "id",
    epilog=examples(
        "veen id alice                     the card of a named key",
        "veen id alice --out alice.json    a file to hand to the issuer of capabilities",
    ),
)
@click.argument("key")
@click.option("--out", type=click.Path(path_type=Path), help="Write the card to this file too.")
@place_options
@json_option
def identity_card(*, key: str, out: Path | None, as_json: bool, place: Place) -> None:
    """Show the public identity card of a key; it holds no secret."""
    from hub.crypto.hpke import DhSecret  # noqa: PLC0415
    from hub.crypto.signing import SigningKey  # noqa: PLC0415

    secrets = place.secrets_of(key)
    card: dict[str, object] = {"ver": 1}
    if SIGN in secrets:
        card["client_id"] = SigningKey(secrets[SIGN]).public.hex()
    if DH in secrets:
        card["dh_pk"] = DhSecret(secrets[DH]).public.hex()
    others = {
        name: SigningKey(secrets[name]).public.hex() for name in secrets if name not in (SIGN, DH)
    }
    if others:
        card["keys"] = others
    if out is not None:
        out.write_text(json.dumps(card, sort_keys=True) + "\n", encoding="utf-8")
        note(f"written to {out}")
    emit(card, as_json=as_json)


def subject_key(place: Place, text: str) -> bytes:
    """A client_id from hex, from an identity card, or from a key that is held here."""
    from hub.cli.place import parse_hex  # noqa: PLC0415

    if len(text) == 64 and all(char in "0123456789abcdefABCDEF" for char in text):
        return parse_hex(text, "--subject")
    path = Path(text)
    if path.is_file() and path.stat().st_size < 65_536:
        data = path.read_bytes()
        if data.lstrip().startswith(b"{"):
            try:
                return parse_hex(str(json.loads(data)["client_id"]), text)
            except (ValueError, KeyError) as flaw:
                raise click.UsageError(f"{text} is not an identity card") from flaw
    return place.signing_key(text).public
