"""`veen stream`: read a stream with proofs, create, list and re-key streams [interfaces]."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hub.cli.output import b64, emit, emit_line, escape, examples, json_option, note, short
from hub.cli.place import (
    RECORDER_ADMIN,
    Place,
    hub_options,
    label_options,
    parse_profiles,
    parse_stream,
    place_options,
)

if TYPE_CHECKING:
    from hub.cli.registry import Registry, StreamEntry
    from hub.crypto.signing import SigningKey
    from hub.streamitem import StreamItem
    from hub.types import Label
    from hub.wire.profile import Profile

_TEXT_CHARS: Final = 200


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "veen stream --stream record/demo/notes --with-proof",
        "veen stream --label HEX --from 10 --follow --json",
    ),
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--profile", "profiles", multiple=True, metavar="EPOCH_SEC:PAD_BLOCK",
              help="Open messages of this profile too; may be repeated.")  # fmt: skip
@click.option("--epoch", type=click.IntRange(0), default=0, help="Epoch of the name's label.")
@click.option("--from", "from_seq", type=click.IntRange(0), default=1, help="First sequence.")
@click.option("--to", "to_seq", type=click.IntRange(1), help="Last sequence; the head by default.")
@click.option("--with-proof", is_flag=True, help="Fetch and check a proof for each message.")
@click.option("--follow", is_flag=True, help="Wait for new messages until stopped.")
@click.option("--poll", "poll_s", type=float, default=1.0, help="Seconds between looks.")
@click.option("--reader-key-file", type=click.Path(path_type=Path), multiple=True,
              help="X25519 secret that opens messages; may be repeated.")  # fmt: skip
@click.option("--save", type=click.Path(path_type=Path), help="Write the items to this file.")
@hub_options
@json_option
def stream(
    *, name: str | None, label: str | None, profiles: tuple[str, ...], epoch: int, from_seq: int,
    to_seq: int | None, with_proof: bool, follow: bool, poll_s: float,
    reader_key_file: tuple[Path, ...], save: Path | None, as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Read a stream, verifying every message; or create, list and re-key streams."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    known = parse_profiles(profiles)
    found = place.label(name, label, epoch)
    secrets = _secrets(place, found, name, reader_key_file)
    count = 0
    out = None if save is None else save.open("wb")
    try:
        with place.connect() as client:
            for item in client.follow(
                found,
                max(1, from_seq),
                to_seq=to_seq,
                with_proof=with_proof or save is not None,
                poll_s=poll_s if follow else None,
            ):
                count += 1
                if out is not None:
                    out.write(_wire(item))
                _show(item, secrets, known, as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        if out is not None:
            out.close()
    if not as_json:
        note(f"{count} messages, each verified against the log and the pinned hub key")


def _wire(item: StreamItem) -> bytes:
    parts = [item.receipt_bytes, item.msg_bytes]
    if item.proof_bytes is not None:
        parts.append(item.proof_bytes)
    return bytes((0x80 | len(parts),)) + b"".join(parts)


def _secrets(place: Place, label: Label, name: str | None, files: tuple[Path, ...]) -> list[bytes]:
    """Reader keys from the command line, else those of the registry; none means sealed."""
    from hub import keystore  # noqa: PLC0415
    from hub.cli.registry import Registry  # noqa: PLC0415

    if files:
        return [keystore.read_key_file(path) for path in files]
    registry = Registry(place.client)
    entry = registry.find(label, name)
    return [] if entry is None else registry.secrets(entry)


def _show(
    item: StreamItem, secrets: list[bytes], profiles: list[Profile], *, as_json: bool
) -> None:
    receipt, msg = item.receipt, item.msg
    document: dict[str, object] = {
        "label": receipt.label.hex(),
        "stream_seq": receipt.stream_seq,
        "hub_ts": receipt.hub_ts,
        "leaf_hash": receipt.leaf_hash.hex(),
        "mmr_root": receipt.mmr_root.hex(),
        "client_id": msg.client_id.hex(),
        "client_seq": msg.client_seq,
        "prev_ack": msg.prev_ack,
        "auth_ref": None if msg.auth_ref is None else msg.auth_ref.hex(),
        "receipt": b64(item.receipt_bytes),
        "msg": b64(item.msg_bytes),
        "verified": True,
    }
    if item.proof_bytes is not None:
        document["proof"] = b64(item.proof_bytes)
        document["mmr_size"] = item.mmr_size
    opened = _open(item, secrets, profiles)
    document.update(opened)
    if as_json:
        emit_line(document)
        return
    proof = f"  proof of {item.mmr_size}" if item.proof_bytes is not None else ""
    when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(receipt.hub_ts))
    content = opened.get("text", "(sealed)" if "body" not in opened else "(binary)")
    click.echo(
        f"{receipt.stream_seq:>6}  {when}  {short(msg.client_id)}  "
        f"{escape(str(content).rstrip()).replace(chr(10), ' ')[:_TEXT_CHARS]}{proof}"
    )


def _open(item: StreamItem, secrets: list[bytes], profiles: list[Profile]) -> dict[str, object]:
    from hub.authoring import open_message  # noqa: PLC0415
    from hub.errors import VeenError  # noqa: PLC0415

    profile = {one.id: one for one in profiles}.get(item.msg.profile_id)
    if not secrets or profile is None:
        return {"opened": False}
    try:
        opened = open_message(item.msg, profile=profile, secret=secrets)
    except VeenError as refusal:
        return {"opened": False, "error": str(refusal)}
    found: dict[str, object] = {
        "opened": True,
        "schema": opened.header.schema.hex(),
        "body": b64(opened.body),
    }
    if opened.header.att_root is not None:
        found["att_root"] = opened.header.att_root.hex()
    if opened.cap_mismatch:
        found["error"] = "cap_mismatch"
    with contextlib.suppress(UnicodeDecodeError):
        found["text"] = opened.body.decode()
    return found


@stream.command(
    epilog=examples(
        "veen stream create record/demo/notes",
        "veen stream create record/demo/notes --class log --admin-key admin.key",
    )
)
@click.argument("name")
@click.option("--class", "klass", default="log", show_default=True, help="Class of the label.")
@click.option("--admin-key", help="Key of the recorder admin (default: the bundle's own).")
@label_options
@json_option
def create(*, name: str, klass: str, admin_key: str | None, as_json: bool, place: Place) -> None:
    """Create a stream: its label and a reader key whose secret half stays here."""
    found = create_here(place, name=name, klass=klass, admin_key=admin_key)
    emit(found, as_json=as_json)


def create_here(place: Place, *, name: str, klass: str, admin_key: str | None) -> dict[str, object]:
    """A stream of this state directory alone, of which nobody is told."""
    from hub.cli.registry import Registry, StreamEntry  # noqa: PLC0415
    from hub.errors import ErrorCode, VeenError  # noqa: PLC0415
    from hub.label import check_stream_name  # noqa: PLC0415

    try:
        check_stream_name(name)
    except VeenError as flaw:
        raise click.UsageError(flaw.detail) from flaw
    registry = Registry(place.client)
    if name in registry.streams:
        raise VeenError(ErrorCode.POLICY, f"{name} exists; `veen stream keys --rotate` re-keys it")
    admin = place.realm_key(admin_key, RECORDER_ADMIN)
    entry = StreamEntry(
        name=name,
        stream_id=parse_stream(name),
        label=place.label(name, None),
        klass=klass,
        admin_pk=admin.public,
    )
    _add_key(registry, entry, admin)
    registry.streams[name] = entry
    registry.save()
    return _summary(entry)


def _add_key(registry: Registry, entry: StreamEntry, admin: SigningKey) -> None:
    """A new reader key: its secret is stored before its record names it."""
    from hub import keystore  # noqa: PLC0415
    from hub.crypto.hpke import DhSecret  # noqa: PLC0415
    from hub.types import StreamId, UnixSeconds  # noqa: PLC0415
    from hub.wire.readerkey import ReaderKeyRecord  # noqa: PLC0415

    key_id = entry.newest().key_id + 1 if entry.records else 1
    secret = DhSecret.generate()
    keystore.write_key_file(registry.secret_path(entry, key_id), secret.secret)
    entry.add(
        ReaderKeyRecord.sign(
            admin,
            stream_id=StreamId(entry.stream_id),
            key_id=key_id,
            reader_pk=secret.public,
            ts=UnixSeconds(int(time.time())),
        )
    )


def _summary(entry: StreamEntry) -> dict[str, object]:
    newest = entry.newest()
    return {
        "name": entry.name,
        "label": entry.label.hex(),
        "stream_id": entry.stream_id.hex(),
        "class": entry.klass,
        "reader_pk": newest.reader_pk.hex(),
        "key_id": newest.key_id,
        "recorder_admin_pk": entry.admin_pk.hex(),
        "reader_key": newest.encode().hex(),
    }


@stream.command("list", epilog=examples("veen stream list", "veen stream list --json"))
@place_options
@json_option
def list_streams(*, as_json: bool, place: Place) -> None:
    """List the streams of this state directory."""
    rows = streams_here(place)
    lines = [
        f"{row['name']}  label {str(row['label'])[:16]}..  class {row['class']}  "
        f"reader key {row['key_id']}"
        for row in rows
    ]
    emit({"streams": rows}, as_json=as_json, lines=lines or ["no streams yet"])


def streams_here(place: Place) -> list[dict[str, object]]:
    """The streams that this state directory made by itself."""
    from hub.cli.registry import Registry  # noqa: PLC0415

    registry = Registry(place.client)
    return [_summary(registry.streams[name]) for name in sorted(registry.streams)]


@stream.command(
    epilog=examples(
        "veen stream keys record/demo/notes",
        "veen stream keys record/demo/notes --rotate",
    )
)
@click.argument("name")
@click.option("--rotate", is_flag=True, help="Make a new reader key; the old ones still open.")
@click.option("--admin-key", help="Key of the recorder admin (default: the bundle's own).")
@place_options
@json_option
def keys(*, name: str, rotate: bool, admin_key: str | None, as_json: bool, place: Place) -> None:
    """Show the reader keys of a stream, or add a new one."""
    rows = keys_here(place, name, rotate=rotate, admin_key=admin_key)
    show_keys(name, rows, as_json=as_json)


def keys_here(
    place: Place, name: str, *, rotate: bool, admin_key: str | None
) -> list[dict[str, object]]:
    """The keys of a stream that this state directory made by itself."""
    from hub.cli.registry import Registry  # noqa: PLC0415
    from hub.wire.readerkey import newest_first  # noqa: PLC0415

    registry = Registry(place.client)
    entry = registry.get(name)
    if rotate:
        _add_key(registry, entry, place.realm_key(admin_key, RECORDER_ADMIN))
        registry.save()
    return [
        {
            "key_id": one.key_id,
            "reader_pk": one.reader_pk.hex(),
            "ts": one.ts,
            "secret_held": registry.secret_path(entry, one.key_id).exists(),
            "record": one.encode().hex(),
        }
        for one in newest_first(entry.records)
    ]


def show_keys(name: str, rows: list[dict[str, object]], *, as_json: bool) -> None:
    """The keys of a stream, newest first."""
    lines = [
        f"key {row['key_id']}  {row['reader_pk']}  "
        f"{'secret held here' if row['secret_held'] else 'public half only'}"
        for row in rows
    ]
    emit({"name": name, "keys": rows}, as_json=as_json, lines=lines)
