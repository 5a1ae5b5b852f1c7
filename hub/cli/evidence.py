"""`veen verify`, `veen inspect` and `veen explain`: all offline [interfaces, Command]."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hub.cli.output import emit, examples, json_option, note
from hub.cli.place import Place, parse_key, pin_options
from hub.errors import ERRORS, ErrorCode, ProofError, WireError

if TYPE_CHECKING:
    from hub.verify import Evidence, Pins, Report
    from hub.wire.trust import TrustFile

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_SUFFIXES: Final = {".msg", ".receipt", ".proof", ".root", ".checkpoint", ".manifest", ".rotation"}
_EXIT_VERIFICATION: Final = 7
# Which slot of the evidence a recognised object fills.
_SLOTS: Final = {
    "RECEIPT": "receipt",
    "MSG": "msg",
    "mmr_proof": "proof",
    "CHECKPOINT": "checkpoint",
    "manifest": "manifest",
    "consistency proof": "consistency",
    "rotation record": "rotations",
    "fork record": "rotations",
    "stream item": "stream",
}


@click.command(
    epilog=examples(
        "veen verify note.receipt note.msg note.proof --hub-pk HEX",
        "veen verify saved.stream --trust trust.json --trust-pk HEX --json",
    )
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rotations", type=_FILE, help="Rotation records, as /rotations serves them.")
@click.option("--trust", "trust_file", type=_FILE, help="Trust file; its .sig lies beside it.")
@click.option("--trust-pk", metavar="HEX", help="The realm's trust key.")
@click.option("--max-age", "max_age_s", type=click.IntRange(0), help="Oldest receipt, in seconds.")
@pin_options
@json_option
def verify(
    *, paths: tuple[Path, ...], rotations: Path | None, trust_file: Path | None,
    trust_pk: str | None, max_age_s: int | None, as_json: bool, place: Place,
) -> int:  # fmt: skip
    """Check receipts, messages, proofs, saved streams or a data directory without a network."""
    if len(paths) == 1 and (paths[0] / "FORMAT").is_file():
        from hub.cli.hubcare import check_directory  # noqa: PLC0415

        return check_directory(paths[0], as_json=as_json, hub_pk=place.pinned())
    if len(paths) == 1 and paths[0].suffix == ".json":
        report, _ = _judge_trust(paths[0], trust_pk)
    else:
        trusted: bytes | None = None
        if trust_file is not None:
            report, trusted = _judge_trust(trust_file, trust_pk)
        if trusted is None or report.is_valid():  # else it vouches for nothing
            files = _gather(paths)
            found = files.pop("rotations", [])
            records = b"".join([rotations.read_bytes()] if rotations else found)
            report = _verify_files(files, _pins(place, records, trusted), max_age_s)
    _print(report, as_json=as_json)
    return 0 if report.is_valid() else _EXIT_VERIFICATION


def _gather(paths: tuple[Path, ...]) -> dict[str, list[bytes]]:
    """What the files hold, by the part it plays; a directory stands for the evidence in it."""
    from hub.cli.objects import identify, read_bytes  # noqa: PLC0415

    listed: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        listed += [one for one in inside if not path.is_dir() or one.suffix in _SUFFIXES]
    found: dict[str, list[bytes]] = {}
    for path in listed:
        data = read_bytes(path.read_bytes())
        try:
            kind, value = identify(data)
            if kind == "CBOR Sequence" and isinstance(value, list):
                kind = identify(value[0])[0]
        except WireError as flaw:
            raise ProofError(f"{path} holds no evidence: {flaw.detail}") from flaw
        slot = _SLOTS.get(kind)
        if slot is None:
            raise ProofError(f"{path} is a {kind}, which nothing verifies alone")
        many = found.setdefault(slot, [])
        if data not in many:  # proofs of one stream come with the same manifest
            many.append(data)
    for slot, many in found.items():
        if len(many) > 1 and slot not in ("receipt", "rotations", "msg", "proof"):
            raise click.UsageError(f"{len(many)} files hold a {slot}; verify one at a time")
    return found


def _pins(place: Place, records: bytes, trusted: bytes | None) -> Pins:
    from hub.verify import Pins  # noqa: PLC0415
    from hub.verify_stream import cut_items  # noqa: PLC0415
    from hub.wire.trust import TrustFile  # noqa: PLC0415

    if trusted is not None:
        return Pins.of_trust_file(TrustFile.decode(trusted))
    ours = place.trust() if place.hub_pk is None else None
    if ours is not None:
        return Pins.of_trust_file(ours)
    return Pins.of_key(place.pinned(), cut_items(records))


def read_trust_file(path: Path, trust_pk: str | None) -> TrustFile:
    """A trust file that the realm's trust key signed; raises for any other."""
    from hub.wire.trust import TrustFile  # noqa: PLC0415

    report, data = _judge_trust(path, trust_pk)
    report.require()
    return TrustFile.decode(data)


def _judge_trust(path: Path, trust_pk: str | None) -> tuple[Report, bytes]:
    """What is to be said of a trust file, and the very bytes of which it is said."""
    from hub.verify import verify_trust_file  # noqa: PLC0415

    if trust_pk is None:
        raise click.UsageError("a trust file needs --trust-pk, the key it is signed with")
    signed = path.with_name(path.name + ".sig")
    signature = signed.read_bytes() if signed.exists() else None
    data = path.read_bytes()
    return verify_trust_file(data, signature, parse_key(trust_pk, "--trust-pk")), data


def _verify_files(files: dict[str, list[bytes]], pins: Pins, max_age_s: int | None) -> Report:
    from hub.verify import merge, verify_evidence  # noqa: PLC0415
    from hub.verify_stream import cut_items, verify_items  # noqa: PLC0415

    if "stream" in files:
        manifest = _first(files, "manifest")
        return verify_items(cut_items(files["stream"][0]), pins, manifest=manifest)
    now = int(time.time())
    reports = [verify_evidence(one, pins, now=now, max_age_s=max_age_s) for one in _messages(files)]
    return merge(reports)


def _first(files: dict[str, list[bytes]], slot: str) -> bytes | None:
    return files[slot][0] if slot in files else None


def _messages(files: dict[str, list[bytes]]) -> list[Evidence]:
    """One piece of evidence for each leaf; receipts of other leaves only lend their roots."""
    from hub.verify import Evidence  # noqa: PLC0415
    from hub.wire.msg import Msg  # noqa: PLC0415
    from hub.wire.proof import MmrProof  # noqa: PLC0415
    from hub.wire.receipt import Receipt  # noqa: PLC0415

    messages = {Msg.decode(one).leaf_hash(): one for one in files.pop("msg", [])}
    proofs = {MmrProof.decode(one).leaf_hash: one for one in files.pop("proof", [])}
    receipts = {Receipt.decode(one).leaf_hash: one for one in files.pop("receipt", [])}
    shared = Evidence(
        checkpoint=_first(files, "checkpoint"),
        manifest=_first(files, "manifest"),
        consistency=_first(files, "consistency"),
    )
    leaves = list(dict.fromkeys([*messages, *proofs])) or list(receipts)
    if not leaves:
        return [shared]
    return [
        replace(
            shared,
            msg=messages.get(leaf),
            proof=proofs.get(leaf),
            receipt=receipts.get(leaf),
            against=tuple(one for other, one in receipts.items() if other not in leaves),
        )
        for leaf in leaves
    ]


def _print(report: Report, *, as_json: bool) -> None:
    lines = report_lines(report)
    lines += [f"{'VALID' if report.is_valid() else 'NOT VALID'}: {report.subject}"]
    emit(report.to_json(), as_json=as_json, lines=lines)


def report_lines(report: Report) -> list[str]:
    """Every check on a line of its own, then the verdicts."""
    lines = [
        f"{'ok  ' if check.ok else 'FAIL'}  {check.verdict:<12}  {check.name}"
        + (f": {check.detail}" if check.detail else "")
        for check in report.checks
    ]
    return [*lines, "", *(f"{name:<12}  {word}" for name, word in report.verdicts().items())]


@click.command(
    epilog=examples(
        "veen inspect note.receipt",
        "veen hub profile --json | jq -r .hub_pk   and   veen inspect - < token.cap",
    )
)
@click.argument("file")
@json_option
def inspect(*, file: str, as_json: bool) -> None:
    """Show the kind, the fields and the CBOR diagnostic of any wire object."""
    from hub.cli.objects import derived, diagnostic, identify, read_bytes, show  # noqa: PLC0415
    from hub.wire import cbor  # noqa: PLC0415

    data = read_bytes(_read(file))
    kind, value = identify(data)
    document: dict[str, object] = {"kind": kind, "bytes": len(data), **derived(value)}
    document["fields"] = show(value)
    lines = [f"{kind}, {len(data)} bytes"]
    lines += [f"{name} {text}" for name, text in derived(value).items()]
    if kind == "trust file":
        lines.append(data.decode())
    elif kind != "CBOR Sequence":
        lines += diagnostic(cbor.decode(data)).splitlines()
    else:
        assert isinstance(value, list)
        lines += [f"item {place}: {identify(item)[0]}" for place, item in enumerate(value, 1)]
    emit(document, as_json=as_json, lines=lines)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    path = Path(file)
    if not path.is_file():
        raise click.UsageError(f"there is no file {file}")
    return path.read_bytes()


@click.command(
    epilog=examples(
        "veen explain E.CAP          a code",
        "veen explain note.receipt   an object",
    )
)
@click.argument("subject")
@json_option
def explain(*, subject: str, as_json: bool) -> None:
    """Say in sentences what an error code or an object means, and what to do."""
    if subject in set(ErrorCode):
        info = ERRORS[ErrorCode(subject)]
        document: dict[str, object] = {
            "code": subject,
            "meaning": info.sentence,
            "remedy": info.remedy,
            "http_status": info.status,
            "exit_code": info.exit_code,
        }
        lines = [f"{subject}: {info.sentence}", info.remedy]
        lines.append(f"HTTP status {info.status}, exit code {info.exit_code}.")
        emit(document, as_json=as_json, lines=lines)
        return
    if subject != "-" and not Path(subject).is_file():
        note("codes: " + " ".join(ErrorCode))
        raise click.UsageError(f"{subject} is neither a code nor a file")
    _explain_object(subject, as_json=as_json)


def _explain_object(file: str, *, as_json: bool) -> None:
    from hub.cli.objects import identify, read_bytes, sentence, show  # noqa: PLC0415
    from hub.wire.receipt import Receipt  # noqa: PLC0415

    kind, value = identify(read_bytes(_read(file)))
    lines = [f"{kind}: {sentence(kind)}"]
    if isinstance(value, Receipt):
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(value.hub_ts))
        lines.append(
            f"At {when} a hub put leaf {value.leaf_hash.hex()[:16]}.. at place "
            f"{value.stream_seq} of label {value.label.hex()[:16]}..; whether you trust that "
            "hub's key is for `veen verify --hub-pk`."
        )
    document = {"kind": kind, "meaning": " ".join(lines), "fields": show(value)}
    emit(document, as_json=as_json, lines=lines)
