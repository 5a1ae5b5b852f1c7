"""`veen bench verify`: a log range offline, beside the same checks in memory [interfaces]."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from hub import mmr
from hub.bench.cores import core_count, timed_on_all_cores
from hub.bench.messages import label_of, messages
from hub.server.config import HubConfig
from hub.server.core import Submission, open_hub
from hub.storage.reader import LogReader
from hub.types import PublicKey
from hub.verify_range import verify_range
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt

LABEL: Final = label_of("verify")
QUICK_EVENTS: Final = 100_000
FULL_EVENTS: Final = 1_000_000
_BATCH: Final = 1_000

Say = Callable[[str], None]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    events = QUICK_EVENTS if quick else FULL_EVENTS
    with tempfile.TemporaryDirectory(prefix="veen-bench-") as scratch:
        folder = Path(scratch) / "hub"
        say(f"a log of {events} messages")
        hub_pk = _make_log(folder, events)
        say("ceiling")
        sample = 20_000 if quick else 60_000
        ceilings = [_ceiling_per_s(folder, sample, hub_pk)]
        say("verification")
        started = perf_counter()
        root = verify_range(folder, LABEL, 1, events, [hub_pk])
        events_per_s = events / (perf_counter() - started)
        reader = LogReader(folder)
        assert root == reader.root_at(LABEL, events)
        reader.close()
        ceilings.append(_ceiling_per_s(folder, sample, hub_pk))
    ceiling = sum(ceilings) / len(ceilings)
    return {
        "name": "verify",
        "quick": quick,
        "events": events,
        "cores": core_count(),
        "events_per_s": round(events_per_s),
        "ceiling_per_s": round(ceiling),
        "verify_ratio": round(events_per_s / ceiling, 3),
    }


def _make_log(folder: Path, count: int) -> PublicKey:
    core = open_hub(HubConfig(data_dir=folder, open_admission=True))
    try:
        for batch in _batches(count):
            answers = core.submit(batch)
            assert all(isinstance(answer, bytes) for answer in answers), answers
        return PublicKey(core.identity.key.public)
    finally:
        core.close()


def _batches(count: int) -> Iterator[list[Submission]]:
    """Messages are signed in a process beside the writer."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        shares = [(number, min(_BATCH * 10, count - at)) for number, at in
                  enumerate(range(0, count, _BATCH * 10))]  # fmt: skip
        for made in pool.imap(_share, shares):
            found = iter(made)
            while batch := list(islice(found, _BATCH)):
                yield [Submission(data, leaf) for data, leaf in batch]


def _share(share: tuple[int, int]) -> list[tuple[bytes, Any]]:
    _, count = share
    made = messages(count, label=LABEL, clients=4)
    return [(data, Msg.decode(data).leaf_hash()) for data in made]


def _ceiling_per_s(folder: Path, count: int, hub_pk: PublicKey) -> float:
    """The checks alone on objects in memory, on all cores."""
    share = count // core_count()
    return share * core_count() / timed_on_all_cores(_ceiling, folder, share, hub_pk)


def _ceiling(folder: Path, count: int, hub_pk: PublicKey) -> Callable[[], None]:
    reader = LogReader(folder)
    entries = [
        (Receipt.decode(receipt), Msg.decode(msg)) for receipt, msg in reader.block(LABEL, 1, count)
    ]
    reader.close()

    def check() -> None:
        peaks: list[bytes] = []
        for size, (receipt, msg) in enumerate(entries):
            msg.check_ct_hash()
            msg.verify()
            receipt.verify(hub_pk)
            mmr.append(peaks, size, msg.leaf_hash())
            assert mmr.root(peaks) == receipt.mmr_root

    return check
