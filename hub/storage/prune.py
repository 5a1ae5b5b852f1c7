"""Retention: payload bytes go, the hash spine stays, space is freed [COMP0.1].

Each segment with payloads to drop is written anew with SPINE frames in their place, synced, and
renamed over the old one; then the index of every entry in it is pointed at the new offsets. An
intent file names the segment meanwhile, so that a start after a stop finishes the index.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import frames, segments
from hub.storage.disk import Disk
from hub.storage.labels import PRUNED_BIT, LabelFiles, Position
from hub.storage.layout import Layout
from hub.storage.replay import LoggedBatch, LoggedEntry, batches
from hub.storage.spine import Spine
from hub.types import Label
from hub.wire.msg import Msg

if TYPE_CHECKING:
    from hub.storage.store import Store

Progress = Callable[[dict[str, Any]], Awaitable[None]]


async def prune_label(
    store: Store, label: Label, before_seq: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Drop the payloads of a label before `before_seq`; the bytes freed and what is still held."""
    state = store.state.labels.get(label)
    if state is None:
        raise VeenError(ErrorCode.NOTFOUND, "no such label")
    store.check_writable()
    last = min(before_seq - 1, state.size)
    freed = 0
    numbers = _segments_of(store.files, label, last)
    if store.segments.number in numbers:
        store.roll()  # only a closed segment is written anew
    if not store.snapshot():  # a start must not look for an offset inside a segment that changes
        raise StoreError("indexes are not known to be durable; restart the hub before pruning")
    for done, number in enumerate(numbers, start=1):
        freed += rewrite_segment(store.layout, store.disk, store.files, number, label, last)
        if progress is not None:
            await progress({"segments": len(numbers), "done": done, "freed_bytes": freed})
    store.snapshot()
    return {"freed_bytes": freed, "first_held": store.files.first_held(label, state.size)}


def _segments_of(files: LabelFiles, label: Label, last: int) -> list[int]:
    """Segments that still hold payloads of the range; entries of a label are in log order."""
    numbers: list[int] = []
    seq = 1
    while seq <= last:
        count = min(4096, last - seq + 1)
        for position in files.positions(label, seq, count):
            if not position.is_pruned and (not numbers or numbers[-1] != position.segment):
                numbers.append(position.segment)
        seq += count
    return numbers


def rewrite_segment(  # noqa: PLR0917 - called once, above
    layout: Layout, disk: Disk, files: LabelFiles, number: int, label: Label, last: int
) -> int:
    """Write one segment without the payloads of label 1..last; returns the bytes freed."""
    path = layout.segment(number)
    data = path.read_bytes()
    _, offset = segments.read_header(data, number, str(path))
    found = batches(data, offset, str(path))
    fresh = data[:offset] + b"".join(_batch_bytes(batch, label, last) for batch in found)
    if len(fresh) == len(data):
        return 0
    disk.write_atomic(layout.prune_intent, f"{number}\n".encode())
    scratch = path.with_suffix(".new")
    fd = disk.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.pwrite(fd, fresh, 0)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.rename(scratch, path)
    disk.sync_dir(layout.log)
    reindex_segment(layout, disk, files, number)
    return len(data) - len(fresh)


def _batch_bytes(batch: LoggedBatch, label: Label, last: int) -> bytes:
    blocks = [_message_frame(entry, label, last) for entry in batch.entries]
    blocks += [frames.frame(frames.RECEIPT, entry.receipt_frame.payload) for entry in batch.entries]
    blocks.append(frames.commit(len(batch.entries), batch.entries_so_far))
    return b"".join(blocks)


def _message_frame(entry: LoggedEntry, label: Label, last: int) -> bytes:
    payload = entry.frame.payload
    goes = entry.receipt.label == label and entry.receipt.stream_seq <= last
    if goes and isinstance(entry.message, Msg):
        return frames.frame(frames.SPINE, Spine.of(entry.message, len(payload)).encode())
    return frames.frame(entry.frame.kind, payload)


def reindex_segment(layout: Layout, disk: Disk, files: LabelFiles, number: int) -> None:
    """Point every entry of a segment at where it stands now; safe to do again."""
    path = layout.segment(number)
    data = path.read_bytes()
    _, offset = segments.read_header(data, number, str(path))
    touched: set[Label] = set()
    for batch in batches(data, offset, str(path)):
        for entry in batch.entries:
            pruned = PRUNED_BIT if entry.frame.kind == frames.SPINE else 0
            position = Position(
                number,
                len(entry.frame.payload) | pruned,
                entry.frame.offset,
                len(entry.receipt_frame.payload),
                entry.receipt_frame.offset,
                entry.receipt.hub_ts,
            )
            files.replace_position(entry.receipt.label, entry.receipt.stream_seq, position)
            touched.add(entry.receipt.label)
    files.sync(touched)
    disk.unlink(layout.prune_intent)


def finish_prune(layout: Layout, disk: Disk, files: LabelFiles) -> None:
    """After a stop in the middle: whichever file has the name now, index what it says."""
    try:
        number = int(layout.prune_intent.read_text("ascii"))
    except FileNotFoundError:
        return
    except ValueError as flaw:
        raise StoreError(f"{layout.prune_intent} is not readable", ErrorCode.DAMAGE) from flaw
    layout.segment(number).with_suffix(".new").unlink(missing_ok=True)
    reindex_segment(layout, disk, files, number)
