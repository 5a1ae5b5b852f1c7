"""`veen cap`: issue, renew, authorize, show and revoke capabilities [SSOT 6]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hub.cli.keys import subject_key
from hub.cli.output import emit, examples, json_option
from hub.cli.place import ISSUER, Place, hub_options, parse_hex, parse_stream, place_options

if TYPE_CHECKING:
    from hub.types import StreamId
    from hub.wire.captoken import CapToken, Rate

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(
    epilog=examples(
        "veen cap issue --subject alice --stream record/demo/notes --out alice.cap",
        "veen cap authorize alice.cap",
    )
)
def cap() -> None:
    """Capabilities: who may append to which streams, how long and how fast."""


@cap.command(
    epilog=examples(
        "veen cap issue --subject alice --stream record/demo/notes --ttl 86400 --out alice.cap",
        "veen cap issue --issuer admin.key --subject HEX --subject HEX --stream a/b --out caps/",
    )
)
@click.option("--issuer", help="Key of the issuer (default: the bundle's own).")
@click.option("--subject", "subjects", multiple=True, required=True,
              help="Key name, identity card or client_id; one token for each.")  # fmt: skip
@click.option("--stream", "streams", multiple=True, required=True, help="Stream name or id.")
@click.option("--ttl", type=click.IntRange(0), default=86_400, show_default=True, help="Seconds.")
@click.option("--rate", metavar="PER_SEC,BURST", help="Token bucket, for example 100,200.")
@click.option("--out", type=click.Path(path_type=Path), required=True,
              help="File, or a directory for several subjects.")  # fmt: skip
@place_options
@json_option
def issue(
    *, issuer: str | None, subjects: tuple[str, ...], streams: tuple[str, ...], ttl: int,
    rate: str | None, out: Path, as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Issue one token for each subject."""
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    stream_ids = [parse_stream(name) for name in streams]
    key = place.realm_key(issuer, ISSUER)
    tokens = [
        CapToken.issue(
            key,
            subject_pk=subject_key(place, subject),
            stream_ids=stream_ids,
            ttl=ttl,
            rate=_rate(rate),
        )
        for subject in subjects
    ]
    written = []
    for token in tokens:
        path = out
        if len(tokens) > 1 or out.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            path = out / f"{token.subject_pk.hex()[:16]}.cap"
        path.write_bytes(token.encode())
        written.append({"file": str(path), **_fields(token)})
    emit(written[0] if len(written) == 1 else {"tokens": written}, as_json=as_json)


def _rate(text: str | None) -> Rate | None:
    from hub.wire.captoken import Rate  # noqa: PLC0415

    if text is None:
        return None
    per_sec, _, burst = text.partition(",")
    if not (per_sec.isdigit() and burst.isdigit()):
        raise click.UsageError("--rate is two numbers: PER_SEC,BURST")
    return Rate(per_sec=int(per_sec), burst=int(burst))


def _fields(token: CapToken) -> dict[str, object]:
    found: dict[str, object] = {
        "auth_ref": token.auth_ref().hex(),
        "issuer": token.issuer_pk.hex(),
        "subject": token.subject_pk.hex(),
        "streams": [one.hex() for one in token.stream_ids],
        "ttl": token.ttl,
        "links": len(token.sig_chain),
    }
    if token.rate is not None:
        found["rate"] = {"per_sec": token.rate.per_sec, "burst": token.rate.burst}
    return found


@cap.command(
    epilog=examples(
        "veen cap renew alice.cap                          one more ttl, in place",
        "veen cap renew alice.cap --issuer admin.key --out new.cap",
    )
)
@click.argument("file", type=_FILE)
@click.option("--issuer", help="Key of the issuer (default: the bundle's own).")
@click.option("--out", type=click.Path(path_type=Path), help="Default: replace FILE.")
@place_options
@json_option
def renew(*, file: Path, issuer: str | None, out: Path | None, as_json: bool, place: Place) -> None:
    """Append a link: one more grant of the same ttl, under a new auth_ref."""
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    token = CapToken.decode(file.read_bytes())
    token.verify_chain()
    token = token.renew(place.realm_key(issuer, ISSUER))
    target = out or file
    target.write_bytes(token.encode())
    emit({"file": str(target), **_fields(token)}, as_json=as_json)


@cap.command(
    epilog=examples(
        "veen cap authorize alice.cap",
        "veen cap authorize alice.cap --hub-url http://127.0.0.1:8421 --hub-pk HEX --json",
    )
)
@click.argument("file", type=_FILE)
@hub_options
@json_option
def authorize(*, file: Path, as_json: bool, place: Place) -> None:
    """Have the hub admit a token; `send` finds it afterwards by itself."""
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    token = CapToken.decode(file.read_bytes())
    token.verify_chain()
    with place.connect() as client:
        auth_ref, expires_at = client.authorize(token)
    keep(place, token)
    emit(
        {
            "auth_ref": auth_ref.hex(),
            "expires_at": expires_at,
            "subject": token.subject_pk.hex(),
        },
        as_json=as_json,
    )


def keep(place: Place, token: CapToken) -> None:
    """Remember an admitted token for `send`; a renewed one takes the place of the old."""
    from hub.storage.disk import Disk  # noqa: PLC0415

    folder = place.client / "caps"
    disk = Disk()
    disk.mkdir(folder)
    name = f"{token.subject_pk.hex()[:32]}-{token.core_id().hex()[:16]}.cap"
    disk.write_atomic(folder / name, token.encode())


def find(place: Place, subject: bytes, stream: StreamId | None) -> CapToken | None:
    """The newest kept token of a subject that covers a stream."""
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    paths = (place.client / "caps").glob(f"{subject.hex()[:32]}-*.cap")
    for path in sorted(paths, key=lambda one: one.stat().st_mtime_ns, reverse=True):
        token = CapToken.decode(path.read_bytes())
        if token.subject_pk == subject and (stream is None or stream in token.stream_ids):
            return token
    return None


@cap.command(
    epilog=examples(
        "veen cap show alice.cap",
        "veen cap show alice.cap --json",
    )
)
@click.argument("file", type=_FILE)
@json_option
def show(*, file: Path, as_json: bool) -> None:
    """Show what a token allows and whether its issuer signed every link."""
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    token = CapToken.decode(file.read_bytes())
    token.verify_chain()
    emit({**_fields(token), "chain": "signed by the issuer"}, as_json=as_json)


@cap.command(
    epilog=examples(
        "veen cap revoke alice.cap --reason 'left the team'",
        "veen cap revoke --client-id HEX --reason 'key lost' --ttl 86400",
    )
)
@click.argument("file", type=_FILE, required=False)
@click.option("--auth-ref", metavar="HEX", help="Revoke by auth_ref instead of by file.")
@click.option("--client-id", metavar="HEX", help="Revoke a client_id as a whole.")
@click.option("--reason", help="Recorded with the revocation.")
@click.option("--ttl", type=click.IntRange(0), help="Seconds; for ever by default.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The hub's data directory.")
@place_options
@json_option
def revoke(
    *, file: Path | None, auth_ref: str | None, client_id: str | None, reason: str | None,
    ttl: int | None, data_dir: Path | None, as_json: bool, place: Place,
) -> None:  # fmt: skip
    """Revoke a capability through the hub's control socket; the act is logged."""
    from hub import control  # noqa: PLC0415
    from hub.wire.captoken import CapToken  # noqa: PLC0415

    if sum(one is not None for one in (file, auth_ref, client_id)) != 1:
        raise click.UsageError("give exactly one of FILE, --auth-ref and --client-id")
    if file is not None:
        kind = "cap-token"
        target = CapToken.decode(file.read_bytes()).revocation_target().hex()
    elif auth_ref is not None:
        kind, target = "auth-ref", parse_hex(auth_ref, "--auth-ref").hex()
    else:
        kind, target = "client-id", parse_hex(str(client_id), "--client-id").hex()
    arguments: dict[str, Any] = {"kind": kind, "target": target}
    if reason is not None:
        arguments["reason"] = reason
    if ttl is not None:
        arguments["ttl"] = ttl
    answer = control.call(data_dir or place.root / "hub", "revoke", **arguments)
    emit({"kind": kind, "target": target, **answer}, as_json=as_json)
