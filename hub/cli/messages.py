"""`veen send`, `veen receipt` and `veen proof`; `veen stream` stands beside them [interfaces]."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hub.cli import cap as capabilities
from hub.cli.output import b64, emit, examples, json_option, note
from hub.cli.place import Place, hub_options, parse_hex, parse_profiles, parse_stream
from hub.cli.stream import stream
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.client import Draft, Producer
    from hub.crypto.signing import SigningKey
    from hub.types import AuthRef, DhKey, Label
    from hub.wire.receipt import Receipt

__all__ = ["proof", "receipt", "send", "stream"]

DEFAULT_SCHEMA: Final = "veen.text.v1"
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    epilog=examples(
        "veen send --client alice --stream record/demo/notes --body 'hello'",
        "veen send --client alice.key --label HEX --reader-pk HEX --file note.txt --out evidence/",
    )
)
@click.option("--client", "--key", "client_key", required=True, help="Key name or file.")
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--body", help="The text; '-' reads standard input.")
@click.option("--file", "file", type=_FILE, help="The body from a file.")
@click.option("--attach", type=_FILE, multiple=True, help="File to attach; may be repeated.")
@click.option("--reader-pk", metavar="HEX", help="Seal to this X25519 key.")
@click.option("--cap", "cap_file", type=_FILE, help="Capability token (default: the kept one).")
@click.option("--profile", metavar="EPOCH_SEC:PAD_BLOCK",
              help="Profile of the message (default 0:256).")  # fmt: skip
@click.option("--schema", default=DEFAULT_SCHEMA, show_default=True, help="Name of the schema.")
@click.option("--parent", metavar="HEX", help="leaf_hash of the message this one answers.")
@click.option("--out", type=click.Path(path_type=Path), help="Write msg and receipt here.")
@click.option("--retries", type=click.IntRange(0, 100), default=3, help="Tries after a failure.")
@hub_options
@json_option
def send(
    *, client_key: str, name: str | None, label: str | None, body: str | None, file: Path | None,
    attach: tuple[Path, ...], reader_pk: str | None, cap_file: Path | None, schema: str,
    profile: str | None, parent: str | None, out: Path | None, retries: int, as_json: bool,
    place: Place,
) -> None:  # fmt: skip
    """Seal, sign and submit a message, and check its receipt."""
    from hub.client import Draft  # noqa: PLC0415
    from hub.crypto.hashing import h  # noqa: PLC0415
    from hub.label import epoch_of  # noqa: PLC0415
    from hub.types import Hash, LeafHash  # noqa: PLC0415
    from hub.wire.payload import PayloadHeader  # noqa: PLC0415
    from hub.wire.profile import PRODUCT  # noqa: PLC0415

    chosen = parse_profiles([profile])[-1] if profile else PRODUCT
    target = place.label(name, label, epoch_of(int(time.time()), chosen.epoch_sec))
    key = place.signing_key(client_key)
    draft = Draft(
        label=target,
        profile=chosen,
        reader_pk=_reader(place, target, name, reader_pk),
        header=PayloadHeader(
            schema=Hash(h(schema.encode())),
            parent_id=None if parent is None else LeafHash(parse_hex(parent, "--parent")),
        ),
        body=_body(body, file),
        attachments=tuple(path.read_bytes() for path in attach),
    )
    receipt, msg = _submit(place, key, draft, _auth_ref(place, key, name, cap_file), retries)
    document: dict[str, object] = {
        "label": target.hex(),
        "stream_seq": receipt.stream_seq,
        "hub_ts": receipt.hub_ts,
        "leaf_hash": receipt.leaf_hash.hex(),
        "mmr_root": receipt.mmr_root.hex(),
        "client_id": key.public.hex(),
        "receipt": b64(receipt.encode()),
        "msg": b64(msg),
    }
    if out is not None:
        document["files"] = _save(out, receipt, msg)
    shown = {name: value for name, value in document.items() if name not in ("receipt", "msg")}
    emit(document if as_json else shown, as_json=as_json)


def _body(text: str | None, file: Path | None) -> bytes:
    if (text is None) == (file is None):
        raise click.UsageError("give exactly one of --body TEXT (or '-') and --file FILE")
    if file is not None:
        return file.read_bytes()
    assert text is not None
    return sys.stdin.buffer.read() if text == "-" else text.encode()


def _reader(place: Place, label: Label, name: str | None, reader_pk: str | None) -> DhKey:
    from hub.cli.registry import Registry  # noqa: PLC0415
    from hub.types import DhKey  # noqa: PLC0415

    if reader_pk is not None:
        return DhKey(parse_hex(reader_pk, "--reader-pk"))
    entry = Registry(place.client).find(label, name)
    if entry is None:
        raise click.UsageError("to whom? give --reader-pk, or make the stream: veen stream create")
    return entry.newest().reader_pk


def _auth_ref(
    place: Place, key: SigningKey, name: str | None, cap_file: Path | None
) -> AuthRef | None:
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    if cap_file is not None:
        token: CapToken | None = CapToken.decode(cap_file.read_bytes())
    else:
        token = capabilities.find(place, key.public, parse_stream(name) if name else None)
    return None if token is None else token.auth_ref()


def _submit(
    place: Place, key: SigningKey, draft: Draft, auth_ref: AuthRef | None, retries: int
) -> tuple[Receipt, bytes]:
    from hub.client import RefusedError  # noqa: PLC0415

    with (
        place.connect() as client,
        client.producer(key, auth_ref=auth_ref, retries_max=retries) as producer,
    ):
        try:
            if producer.pending():
                note(f"{producer.pending()} earlier messages are sent first")
                producer.flush()
            (found,) = producer.submit_all([draft])
        except RefusedError as refused:
            _withdraw(producer, refused)
            raise
    return found.receipt, found.msg_bytes


def _withdraw(producer: Producer, refused: VeenError) -> None:
    """A refused message is taken back; one whose fate is unknown stays and is sent again.

    That holds for an earlier message too: left in place it would block every later one.
    """
    from hub.client import RefusedError  # noqa: PLC0415

    assert isinstance(refused, RefusedError)
    if refused.code is ErrorCode.UNREACHABLE:
        note("the message is kept and goes out with the next `veen send` of this key")
        return
    producer.withdraw(refused.entry)
    note(f"message {refused.entry.leaf_hash.hex()[:16]}.. was refused and is taken back")


def _save(folder: Path, receipt: Receipt, msg: bytes) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{receipt.label.hex()[:16]}-{receipt.stream_seq}"
    files = {"msg": folder / f"{stem}.msg", "receipt": folder / f"{stem}.receipt"}
    files["msg"].write_bytes(msg)
    files["receipt"].write_bytes(receipt.encode())
    return {kind: str(path) for kind, path in files.items()}


@click.command(
    epilog=examples(
        "veen receipt --stream record/demo/notes --seq 3 --out three.receipt",
        "veen receipt --leaf HEX --json",
    )
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--seq", type=click.IntRange(1), help="Sequence; the head by default.")
@click.option("--leaf", metavar="HEX", help="By leaf_hash, which needs no read token.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the receipt to this file.")
@hub_options
@json_option
def receipt(
    *, name: str | None, label: str | None, seq: int | None, leaf: str | None, out: Path | None,
    as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Fetch a receipt and check it against the pinned hub key."""
    from hub.types import LeafHash  # noqa: PLC0415

    with place.connect() as client:
        if leaf is not None:
            found = client.receipt_by_leaf(LeafHash(parse_hex(leaf, "--leaf")))
            client.check_own_receipt(found, found.label, LeafHash(parse_hex(leaf, "--leaf")))
        elif seq is None:
            found = client.head(place.label(name, label))
        else:
            found = client.receipt(place.label(name, label), seq)
    if out is not None:
        out.write_bytes(found.encode())
    document: dict[str, object] = {
        "label": found.label.hex(),
        "stream_seq": found.stream_seq,
        "leaf_hash": found.leaf_hash.hex(),
        "mmr_root": found.mmr_root.hex(),
        "hub_ts": found.hub_ts,
    }
    if as_json:
        document["receipt"] = b64(found.encode())
    if out is not None:
        document["file"] = str(out)
    emit(document, as_json=as_json)


@click.command(
    epilog=examples(
        "veen proof --stream record/demo/notes --seq 3 --out three.proof",
        "veen proof --label HEX --seq 3 --size 3 --json",
    )
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--seq", type=click.IntRange(1), required=True, help="Sequence to prove.")
@click.option("--size", type=click.IntRange(1), help="Size to prove against; the head by default.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the proof to this file.")
@hub_options
@json_option
def proof(
    *, name: str | None, label: str | None, seq: int, size: int | None, out: Path | None,
    as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Fetch an inclusion proof and check it against a signed root.

    With --out the statement that signed the root is written beside the proof: the receipt of that
    size, or for a superseded hub key its last manifest and the rotation records.
    """
    target = place.label(name, label)
    with place.connect() as client:
        promised = client.receipt(target, seq)
        signer = client.chain.signer(promised)
        statements: dict[str, bytes] = {}
        if client.chain.is_current(signer):
            found, mmr_size, root = client.proof(target, seq, size=size)
            signed = client.receipt(target, mmr_size)
            if signed.mmr_root != root:
                raise VeenError(ErrorCode.PROOF, "the proof's root is not the signed one")
            statements[".root"] = signed.encode()
        else:
            cover = client.chain.cover(target, seq)
            assert cover is not None, "client.receipt has checked it"
            found, mmr_size, root = client.proof(target, seq, size=cover.size)
            root = cover.root
            statements[".manifest"] = client.chain.last_manifest(signer).encode()
            statements[".rotation"] = b"".join(client.rotations())
    if found.leaf_hash != promised.leaf_hash:
        raise VeenError(ErrorCode.PROOF, "the proof is not for the leaf of the receipt")
    found.verify(stream_seq=seq, mmr_size=mmr_size, root=root)
    document: dict[str, object] = {
        "label": target.hex(),
        "stream_seq": seq,
        "mmr_size": mmr_size,
        "mmr_root": root.hex(),
        "leaf_hash": found.leaf_hash.hex(),
        "path": len(found.path),
        "verified": True,
    }
    if out is not None:
        document["files"] = _save_proof(out, found.encode(), statements)
    if as_json:
        document["proof"] = b64(found.encode())
        document |= {suffix[1:]: b64(data) for suffix, data in statements.items()}
    emit(document, as_json=as_json)


def _save_proof(out: Path, proof_bytes: bytes, statements: dict[str, bytes]) -> list[str]:
    out.write_bytes(proof_bytes)
    files = [str(out)]
    for suffix in (".root", ".manifest", ".rotation"):
        path = out.with_name(out.name + suffix)
        # What an earlier proof of this name was against would only mislead.
        path.unlink(missing_ok=True)
        if suffix in statements:
            path.write_bytes(statements[suffix])
            files.append(str(path))
    return files
