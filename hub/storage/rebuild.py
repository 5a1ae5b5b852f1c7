"""rebuild: every index made anew from log and manifests, which are only read [SSOT 3.4.1].

An intent file stands in the directory while it lasts. Whatever stops it, the next start or the
next rebuild finds the intent and does the whole work again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hub.errors import ErrorCode, StoreError
from hub.storage import manifests, segments
from hub.storage.disk import DirectoryLock, Disk
from hub.storage.frames import Damage
from hub.storage.history import History, read_history
from hub.storage.layout import Layout
from hub.storage.replay import Replayer, batches, has_later_batch
from hub.storage.state import LogState
from hub.storage.store import open_store

Progress = Callable[[dict[str, Any]], None]


def run_rebuild(
    data_dir: Path, *, progress: Progress | None = None, disk: Disk | None = None
) -> dict[str, Any]:
    """Recreate labels/, leaves.sqlite and the CHECKPOINT files; S.LOCKED while a hub runs.

    The snapshot goes: what it holds beside the log's own cursors (rate buckets, epochs) depends on
    the hub's configuration, so the next start replays the log and makes a new one.
    """
    disk = disk or Disk()
    layout = Layout(data_dir)
    if not layout.format.exists():
        raise StoreError(f"{data_dir} is no data directory of a hub", ErrorCode.DAMAGE)
    lock = DirectoryLock(layout.lock)
    try:
        history = read_history(layout)
        total = check_log(layout, history, progress)
        manifests.point_at_newest(layout, disk)
        disk.write_atomic(layout.rebuild_intent, b"")
        return _rebuild(data_dir, disk, history, total, progress)
    finally:
        lock.release()


def _rebuild(
    data_dir: Path, disk: Disk, history: History, total: int, progress: Progress | None
) -> dict[str, Any]:
    def replayed(entries: int) -> None:
        if progress is not None:
            progress({"step": "rebuild", "entries": entries, "total": total})

    store, damage = open_store(
        data_dir,
        disk,
        hub_id=history.hub_id,
        ledger=None,
        keys=history.keys[::-1],
        progress=replayed,
    )
    try:
        if damage is not None:
            raise damage
        return {
            "entries": store.state.entries,
            "labels": len(store.state.labels),
            "segments": store.segments.number,
            "checkpoints": sum(store.files.checkpoint_count(label) for label in store.state.labels),
        }
    finally:
        store.close_unchanged()


def check_log(layout: Layout, history: History, progress: Progress | None) -> int:
    """How many entries the log leads to from its first one, or Damage.

    Indexes are made anew only from a log that is whole: those of a damaged one still find what
    stands behind the damage.
    """
    replayer = Replayer(LogState(), None)
    numbers = layout.segment_numbers()
    for expected, number in enumerate(numbers, start=1):
        if number != expected:
            raise Damage(str(layout.segment(expected)), 0, "segment is missing")
        _check_segment(layout, history, replayer, number, is_last=number == numbers[-1])
        if progress is not None:
            progress({"step": "check", "segments": len(numbers), "done": number})
    return replayer.state.entries


def _check_segment(
    layout: Layout, history: History, replayer: Replayer, number: int, *, is_last: bool
) -> None:
    path = layout.segment(number)
    data, where, state = path.read_bytes(), str(path), replayer.state
    state.segment, state.offset = number, 0

    def is_torn() -> bool:
        first = state.entries + (1 if state.offset else 0)
        return is_last and not has_later_batch(data, state, first, history.keys, where)

    try:
        entries, state.offset = segments.read_header(data, number, where)
    except Damage:
        if is_torn():
            return
        raise
    if entries != state.entries and not is_torn():
        raise Damage(where, 0, "entries are missing before this segment")
    found = batches(data, state.offset, where)
    while True:
        try:
            batch = next(found, None)
        except Damage:
            if is_torn():
                return
            raise
        if batch is None:
            return
        replayer.apply(batch, number, where)
        replayer.tails.clear()
