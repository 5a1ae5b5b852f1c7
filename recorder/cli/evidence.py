"""`veen recorder evidence`, `verifier`, and `veen verify` for packs too [interfaces, Command]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.cli.evidence import read_trust_file, report_lines
from hub.cli.evidence import verify as hub_verify
from hub.cli.output import emit, examples, json_option, note
from hub.cli.place import Place, hub_options, parse_hex, parse_key, pin_options

if TYPE_CHECKING:
    from hub.client import HubClient
    from recorder.evidence.verify import Judgement, Trust

_PATH: Final = click.Path(path_type=Path)
_EXIT_VERIFICATION: Final = 7
_SAMPLE_BYTES: Final = 64


@click.command(
    epilog=examples(
        "veen recorder evidence --stream record/security/iam --seq 42 --out 42.evidence",
        "veen recorder evidence --stream record/security/iam --seq 42 --open --html --out 42.html",
    )
)
@click.option("--stream", "name", required=True, help="Stream name.")
@click.option("--seq", type=click.IntRange(1), required=True, help="hub_commit_seq of the event.")
@click.option("--out", type=_PATH, required=True, help="The file to write.")
@click.option("--open", "is_open", is_flag=True, help="Disclose the content of this one event.")
@click.option("--html", "is_html", is_flag=True, help="A page that checks and shows itself.")
@click.option("--label", metavar="HEX", help="The stream's label, where no routing key is held.")
@click.option("--manifest", metavar="HEX", help="Prove against this manifest, not the newest.")
@click.option("--reader-key-file", type=_PATH, multiple=True,
              help="X25519 secret that opens the event; may be repeated.")  # fmt: skip
@click.option("--parent-pk", metavar="HEX", multiple=True,
              help="Key of the log this hub was forked from; may be repeated.")  # fmt: skip
@hub_options
@json_option
def evidence(
    *, name: str, seq: int, out: Path, is_open: bool, is_html: bool, label: str | None,
    manifest: str | None, reader_key_file: tuple[Path, ...], parent_pk: tuple[str, ...],
    as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Pack one event with receipt, proof, checkpoint and keys into one file for a stranger."""
    from hub.storage.disk import Disk  # noqa: PLC0415
    from hub.types import ManifestId  # noqa: PLC0415
    from recorder.evidence.build import build_pack  # noqa: PLC0415
    from recorder.evidence.page import render  # noqa: PLC0415
    from recorder.evidence.verify import verify_pack  # noqa: PLC0415

    found = place.label(None, label) if label else place.label(name, None)
    secrets = _secrets(place, name, reader_key_file) if is_open else []
    if is_open and not secrets:
        raise click.UsageError(f"no reader key of {name} is held here; give --reader-key-file")
    with _connect(place, parent_pk) as client:
        pack = build_pack(
            client,
            label=found,
            stream=name,
            seq=seq,
            secrets=secrets,
            manifest_id=None if manifest is None else ManifestId(parse_hex(manifest, "--manifest")),
        )
        trusted = client.chain.current
    data = pack.encode()
    written = render(data).encode() if is_html else data
    Disk().write_atomic(out, written)
    told = verify_pack(data, None).to_json()
    document = {
        "file": str(out),
        "bytes": len(written),
        "content": told["content"],
        **{key: value for key, value in _event(told).items() if key not in _INSIDE},
        "fingerprint": trusted.hex(),
    }
    emit(document, as_json=as_json)
    if is_open:
        note("the file discloses the content of this event; its stream key stays secret")
    note("tell the auditor the hub's fingerprint by another way than this file")


_INSIDE: Final = {"subject_id", "event_type", "event_time", "origin", "payload", "schema", "body"}


def _event(told: dict[str, object]) -> dict[str, object]:
    found = told["event"]
    assert isinstance(found, dict)
    return found


def _connect(place: Place, parent_pk: tuple[str, ...]) -> HubClient:
    client = place.connect()
    client.chain.trust_parent([parse_key(one, "--parent-pk") for one in parent_pk])
    return client


def _secrets(place: Place, name: str, files: tuple[Path, ...]) -> list[bytes]:
    """Those named; else what the bundle's worker holds; else those of `veen stream create`."""
    from hub import keystore  # noqa: PLC0415
    from hub.cli.registry import Registry  # noqa: PLC0415

    if files:
        return [keystore.read_key_file(path) for path in files]
    held = place.secret("readers.keys")
    if held.exists():
        rows = json.loads(keystore.read_private(held))["streams"].get(name, [])
        if rows:
            return [bytes.fromhex(row["secret"]) for row in rows]
    registry = Registry(place.client)
    return registry.secrets(registry.get(name)) if name in registry.streams else []


@click.command(
    epilog=examples(
        "veen recorder verifier --out veen-verify.html",
        "veen recorder verifier --out /media/stick/veen-verify.html --json",
    )
)
@click.option("--out", type=_PATH, required=True, help="The file to write.")
@json_option
def verifier(*, out: Path, as_json: bool) -> None:
    """Write veen-verify.html, which checks packs in a browser, from disk, without a network."""
    from hub.crypto.hashing import h  # noqa: PLC0415
    from hub.storage.disk import Disk  # noqa: PLC0415
    from recorder.evidence.page import render  # noqa: PLC0415

    data = render().encode()
    Disk().write_atomic(out, data)
    emit({"file": str(out), "bytes": len(data), "sha256": h(data).hex()}, as_json=as_json)


def _verify(**options: Any) -> int:  # noqa: ANN401 - click's own options, passed on
    """Check a pack here, anything else as the hub's command does."""
    paths: tuple[Path, ...] = options["paths"]
    data = _read_pack(paths[0]) if len(paths) == 1 else None
    if data is None:
        options.pop("routing_key_file")
        assert hub_verify.callback is not None
        outcome: int = hub_verify.callback(**options)
        return outcome
    return _verify_pack(data=data, **options)


@pin_options
def _verify_pack(
    *, data: bytes, place: Place, trust_file: Path | None, trust_pk: str | None,
    routing_key_file: Path | None, as_json: bool, **_: object,
) -> int:  # fmt: skip
    from hub import keystore  # noqa: PLC0415
    from recorder.evidence.verify import verify_pack  # noqa: PLC0415

    routing_key = None if routing_key_file is None else keystore.read_key_file(routing_key_file)
    judgement = verify_pack(data, _trust(place, trust_file, trust_pk), routing_key=routing_key)
    emit(judgement.to_json(), as_json=as_json, lines=_lines(judgement))
    return 0 if judgement.is_valid() else _EXIT_VERIFICATION


def _trust(place: Place, trust_file: Path | None, trust_pk: str | None) -> Trust:
    if trust_file is not None:
        return read_trust_file(trust_file, trust_pk)
    found = place.hub_pk or place.running().get("hub_pk")
    return parse_key(str(found), "--hub-pk") if found else None


def _lines(judgement: Judgement) -> list[str]:
    told = judgement.to_json()
    lines = report_lines(judgement.report)
    shown = _event(told)
    width = max(map(len, shown), default=0)
    lines += ["", *(f"{name.ljust(width)}  {value}" for name, value in shown.items())]
    lines.append(f"{judgement.word().upper()}: evidence pack, content {told['content']}")
    return lines


def _read_pack(path: Path) -> bytes | None:
    """The pack in a file, bare or inside a page of ours; None when it is something else."""
    from recorder.evidence.pack import PACK_BYTES_MAX, is_pack  # noqa: PLC0415
    from recorder.evidence.page import PAGE_BYTES_MAX, extract, is_page  # noqa: PLC0415

    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(_SAMPLE_BYTES)
        if is_pack(start):
            return start + file.read(PACK_BYTES_MAX + 1 - len(start))
        if is_page(start):
            return extract(start + file.read(PAGE_BYTES_MAX))
    return None


verify: Final = click.Command(
    "verify",
    params=[
        *hub_verify.params,
        click.Option(
            ["--routing-key-file"], type=_PATH, help="Lets the stream name of a pack be checked."
        ),
    ],
    callback=_verify,
    help="Check packs, receipts, messages, proofs, saved streams or a data directory offline.",
    epilog=examples(
        "veen verify 42.evidence --hub-pk HEX",
        "veen verify note.receipt note.msg note.proof --trust trust.json --trust-pk HEX --json",
    ),
)
