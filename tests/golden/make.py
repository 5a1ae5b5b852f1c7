"""Makes a golden data directory of the present format, as a hub of this version leaves it [C15].

    python tests/golden/make.py

writes tests/golden/format-N.tar.xz (a data directory `d` and its heads file, modes kept) and
format-N.json (what a later version must find in it). Run it once for each new FORMAT_VERSION and
never again for an old one: that a later hub still opens these very bytes is the test.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hub import label as labels  # noqa: E402 - the path comes first
from hub import mmr  # noqa: E402
from hub.admission import records  # noqa: E402
from hub.admission.records import Revocation, RevocationKind  # noqa: E402
from hub.crypto.hpke import DhSecret  # noqa: E402
from hub.crypto.signing import SigningKey  # noqa: E402
from hub.selftest.prober import Prober  # noqa: E402
from hub.selftest.still import T0, StillHub  # noqa: E402
from hub.storage import attachments  # noqa: E402
from hub.storage.layout import FORMAT_VERSION  # noqa: E402
from hub.storage.prune import prune_label  # noqa: E402
from hub.types import Hash, UnixSeconds  # noqa: E402
from hub.wire.captoken import CapToken, Rate  # noqa: E402

FOLDER: Final = Path(__file__).resolve().parent
ISSUER: Final = SigningKey(bytes([1]) * 32)
READER: Final = DhSecret(bytes([2]) * 32)
ROUTING_KEY: Final = bytes([3]) * 32
STREAMS: Final = ("golden/alpha", "golden/beta")
NOW: Final = T0 + 60  # when the directory was left


def prober(hub: StillHub, stream: str, key: SigningKey, *, rate: Rate | None = None) -> Prober:
    """An admitted client on one stream."""
    stream_id = labels.stream_id(stream)
    token = CapToken.issue(
        ISSUER, subject_pk=key.public, stream_ids=[stream_id], ttl=10**9, rate=rate
    )
    hub.authorize(token)
    return Prober(
        send=hub.submit,
        key=key,
        label=labels.derive(ROUTING_KEY, stream_id),
        auth_ref=token.auth_ref(),
        reader=READER,
    )


def fill(hub: StillHub) -> dict[str, object]:
    """A little of everything a directory may hold: two keys, two segments, a pruned range."""
    alpha = prober(hub, STREAMS[0], SigningKey(bytes([4]) * 32))
    beta = prober(hub, STREAMS[1], SigningKey(bytes([5]) * 32), rate=Rate(per_sec=1, burst=50))
    for number in range(7):
        alpha.take(alpha.draft(b"alpha %d" % number))
        beta.take(beta.draft(b"beta %d" % number))
    hub.core.checkpoint()
    hub.core.store.roll()
    hub.now += 30
    hub.core.rotate()
    for number in range(7, 12):
        alpha.take(alpha.draft(b"alpha %d" % number))
    sealed = beta.author(b"", attachments=[b"an attachment"])
    beta.take(sealed.msg_bytes)
    attachments.write(
        hub.core.store.layout, hub.core.store.disk, sealed.attachments[0].coid,
        sealed.attachments[0].sealed,
    )  # fmt: skip
    target = Hash(SigningKey(bytes([6]) * 32).public)
    gone = Revocation(kind=RevocationKind.CLIENT_ID, target=target, ts=UnixSeconds(hub.now))
    hub.core.record(records.REVOCATION, gone.encode())
    asyncio.run(prune_label(hub.core.store, alpha.label, 4))
    hub.now = NOW
    hub.core.checkpoint()
    return describe(hub, {"alpha": alpha, "beta": beta})


def describe(hub: StillHub, probers: dict[str, Prober]) -> dict[str, object]:
    """What must be found again, byte for byte."""
    state = hub.core.store.state
    return {
        "format": FORMAT_VERSION,
        "now": NOW,
        "hub_id": hub.core.identity.hub_id.hex(),
        "hub_pk": hub.core.identity.key.public.hex(),
        "first_pk": hub.core.identity.first_pk.hex(),
        "last_manifest_id": (hub.core.checkpoints.latest or b"").hex(),
        "heads": {
            label.hex(): {"size": one.size, "root": mmr.root(one.peaks).hex()}
            for label, one in sorted(state.labels.items())
        },
        "streams": {
            name: {
                "label": one.label.hex(),
                "first_held": hub.core.reader.first_held(one.label),
                "receipts": [receipt.encode().hex() for _, receipt in one.accepted],
            }
            for name, one in probers.items()
        },
    }


def pack(folder: Path) -> bytes:
    """A tar with modes and nothing of this machine in it."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = NOW
        return None if entry.name.endswith("/lock") else entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in ("d", "d.heads"):
            archive.add(folder / name, arcname=name, filter=plain)
    return buffer.getvalue()


def main() -> None:
    """Write both files; an existing golden directory is never replaced."""
    archive = FOLDER / f"format-{FORMAT_VERSION}.tar.xz"
    if archive.exists():
        raise SystemExit(f"{archive.name} exists: a golden directory is made once")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "d"
        with StillHub(place, routing_key=ROUTING_KEY, issuer=ISSUER.public) as hub:
            expected = fill(hub)
        archive.write_bytes(pack(Path(scratch)))
    described = json.dumps(expected, indent=1) + "\n"
    archive.with_name(f"format-{FORMAT_VERSION}.json").write_text(described, encoding="utf-8")


if __name__ == "__main__":
    main()
