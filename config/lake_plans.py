"""What the worker knows of each stream: its log, its lake, its keys [architecture: processes].

Secrets come from `readers.keys`, which the author replaces; the pinned hub key from the realm's
trust file, never from an answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from config.settings_file import Settings
from config.up_secrets import READERS_KEYS
from config.up_state import StateDir
from hub import keystore
from hub.errors import ErrorCode, VeenError
from hub.index_source import Pin, pin_from_trust
from hub.types import HubId, Label, PublicKey
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest
from recorder.models import Stream
from spark_jobs.chunk import StreamPlace, StreamSecret
from spark_jobs.ingest import IngestPlan
from spark_jobs.sources import HubFiles, HubReads, LogSource

WORKER_TOKEN: Final = "worker.token"  # noqa: S105 - the name of a file

Secrets = dict[str, tuple[StreamSecret, ...]]


def now_ms() -> int:
    """The wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


def read_secrets(path: Path) -> Secrets:
    """The reader keys by stream, newest first; none while the author has written none."""
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(keystore.read_private(path))
        return {
            name: tuple(
                StreamSecret(key_id=int(one["key_id"]), secret=bytes.fromhex(one["secret"]))
                for one in keys
            )
            for name, keys in found["streams"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as flaw:
        raise VeenError(ErrorCode.KEYSTORE, f"{path} is not a file of reader keys") from flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What plans are made from, read once for a piece of work."""

    lake: Path
    source: LogSource
    pin: Pin
    secrets: Secrets

    @classmethod
    def read(cls, state: StateDir, settings: Settings) -> Surroundings:
        """As the state directory says now, or C.CONFIG while no hub runs."""
        try:
            status = json.loads(state.status.read_bytes())
            pin = pin_from_trust(
                state.trust.read_bytes(),
                state.trust_sig.read_bytes(),
                PublicKey(bytes.fromhex(state.trust_pk.read_text())),
                HubId(bytes.fromhex(status["hub_id"])),
            )
            url, token = str(status["hub_url"]), state.secret(WORKER_TOKEN).read_text().strip()
        except OSError as missing:
            detail = f"{missing.filename} cannot be read: {missing.strerror}"
            raise VeenError(ErrorCode.CONFIG, detail) from missing
        except (KeyError, TypeError, ValueError) as flaw:
            raise VeenError(ErrorCode.CONFIG, "no hub is running under this bundle") from flaw
        return cls(
            lake=lake_dir(state),
            source=_source(state, settings, url, token),
            pin=pin,
            secrets=read_secrets(state.secret(READERS_KEYS)),
        )

    def plan(self, stream: Stream, *, wait_s: float = 0.0) -> IngestPlan:
        """How to bring this stream up to its head."""
        return IngestPlan(
            lake=self.lake,
            stream=stream.name,
            label=label_of(stream),
            source=self.source,
            hub_pk=self.pin.hub_pk,
            now_ms=now_ms(),
            secrets=self.secrets.get(stream.name, ()),
            wait_s=wait_s,
        )

    def place(self, stream: Stream) -> StreamPlace:
        """Where this stream is, for work on what the lake already holds."""
        return StreamPlace(
            lake=self.lake,
            stream=stream.name,
            label=label_of(stream),
            hub_id=self.pin.hub_id,
            source=self.source,
            secrets=self.secrets.get(stream.name, ()),
        )


def lake_dir(state: StateDir) -> Path:
    """The lake of a state directory."""
    return state.root / "lake"


def label_of(stream: Stream) -> Label:
    """The label as the log knows it."""
    return Label(bytes.fromhex(stream.label))


def _source(state: StateDir, settings: Settings, url: str, token: str) -> LogSource:
    """Files where the tasks run beside them; a cluster asks over HTTP."""
    if settings.spark_master.startswith("local") and (state.hub / "FORMAT").exists():
        return HubFiles(data_dir=state.hub)
    return HubReads(url=url, token=token)


class Manifests:
    """The manifests of all streams, each read again only when it was replaced."""

    def __init__(self) -> None:
        self._held: dict[Path, tuple[tuple[int, int], LakeManifest | None]] = {}

    def of(self, folder: LakeFolder) -> LakeManifest | None:
        """The newest snapshot of a stream's lake."""
        try:
            found = folder.manifest_path.stat()
        except FileNotFoundError:
            return None
        mark = (found.st_mtime_ns, found.st_ino)
        held = self._held.get(folder.root)
        if held is None or held[0] != mark:
            held = self._held[folder.root] = (mark, folder.read())
        return held[1]


def find_streams(names: Iterable[str]) -> list[Stream]:
    """The streams of these names, all of them for none; E.NOTFOUND names the first unknown."""
    wanted = list(names)
    rows = list(Stream.objects.order_by("name"))
    if not wanted:
        return rows
    known = {row.name: row for row in rows}
    for name in wanted:
        if name not in known:
            raise VeenError(ErrorCode.NOTFOUND, f"there is no stream {name}")
    return [known[name] for name in wanted]
