"""The guard against forking one's own log [wire.md, Durability].

A hub writes only when the directory is at or ahead of the last heads it signed. A directory that
is behind them is a restored backup; entries without any heads are a copy. Both are read-only until
an operator says what they are.
"""

from __future__ import annotations

from pathlib import Path

from hub import mmr
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import heads
from hub.storage.heads import Heads, HeadsFile
from hub.storage.store import Store
from hub.types import HubId, Label


def store_heads(store: Store) -> Heads:
    """The heads of the directory as it is."""
    return {
        label: (state.size, mmr.root(state.peaks))
        for label, state in store.state.labels.items()
        if state.size
    }


def check_heads(store: Store, path: Path, hub_id: HubId) -> None:
    """Raise S.BEHIND or S.COPY unless this directory is the one that signed last."""
    found = heads.read(path)
    if found is None:
        if store.state.entries:
            raise StoreError(f"{path} is missing beside a log with entries", ErrorCode.COPY)
        return
    owner, signed, _ = found
    if owner != hub_id:
        raise StoreError(f"{path} is of hub {owner.hex()[:16]}, not of this log", ErrorCode.COPY)
    for label, (seq, root) in signed.items():
        state = store.state.labels.get(label)
        if state is None or state.size < seq:
            size = 0 if state is None else state.size
            raise StoreError(
                f"label {label.hex()[:16]} has {size} entries, {seq} were signed", ErrorCode.BEHIND
            )
        if _root_at(store, label, seq) != root:
            raise StoreError(
                f"label {label.hex()[:16]} has another history at {seq}", ErrorCode.BEHIND
            )


def _root_at(store: Store, label: Label, size: int) -> bytes:
    state = store.state.labels[label]
    if state.size == size:
        return mmr.root(state.peaks)
    try:
        return mmr.root_at(size, lambda height, index: store.files.node(label, height, index))
    except VeenError:
        return b""


def attach(store: Store, path: Path, hub_id: HubId) -> None:
    """From now on every batch notes its heads there."""
    store.heads = HeadsFile(path, store.disk, hub_id, store_heads(store))
