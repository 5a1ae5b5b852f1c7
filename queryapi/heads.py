"""Coverage as it is pinned at submit: where verified heads say each stream stands [query]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hub.errors import StoreError
from hub.types import Label
from queryapi.contract.coverage import Coverage
from recorder.hub_reads import HubReads
from recorder.lake.reader import open_snapshot
from recorder.models import Stream
from recorder.queries import label_of


def pin_coverage(hub: HubReads, streams: Mapping[str, Stream], lake: Path) -> list[Coverage]:
    """The whole of each stream up to its head, as far as payloads are retained."""
    heads = hub.heads([label_of(stream) for stream in streams.values()])
    found = []
    for name, stream in sorted(streams.items()):
        label = label_of(stream)
        head = heads.get(label)
        found.append(
            Coverage(
                stream=name,
                label=label,
                hub_id=hub.hub_id,
                from_seq=_first_held(lake, label),
                to_seq=0 if head is None else head.stream_seq,
                mmr_root=None if head is None else head.mmr_root,
            )
        )
    return found


def _first_held(lake: Path, label: Label) -> int:
    """What retention took from the log, ingest took from the lake; both keep the same rest.

    A damaged lake is for the run to name: here it is as if nothing had been ingested.
    """
    try:
        snapshot = open_snapshot(lake, label)
    except (StoreError, OSError):
        return 1
    return 1 if snapshot is None else snapshot.manifest.first_seq
