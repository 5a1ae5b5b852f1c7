"""A range of a log is verified in parts that are chained, however many processes share them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hub import verify_range
from hub.bench.messages import label_of, messages
from hub.errors import ProofError, VeenError
from hub.server.config import HubConfig
from hub.server.core import Submission, open_hub
from hub.storage.reader import LogReader
from hub.types import PublicKey
from hub.verify_range import Part, PartRoots
from hub.wire.msg import Msg

LABEL = label_of("verify")
COUNT = 23


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PublicKey]:
    folder = tmp_path_factory.mktemp("log") / "hub"
    core = open_hub(HubConfig(data_dir=folder, open_admission=True))
    try:
        made = messages(COUNT, label=LABEL, clients=2)
        core.submit([Submission(data, Msg.decode(data).leaf_hash()) for data in made])
        return folder, PublicKey(core.identity.key.public)
    finally:
        core.close()


@pytest.mark.parametrize(("first", "last"), [(1, COUNT), (1, 1), (4, 19), (COUNT, COUNT)])
def test_any_range_gives_the_root_at_its_end(
    log: tuple[Path, PublicKey], monkeypatch: pytest.MonkeyPatch, first: int, last: int
) -> None:
    folder, hub_pk = log
    monkeypatch.setattr(verify_range, "PART_ENTRIES_MAX", 3)
    found = verify_range.verify_range(folder, LABEL, first, last, [hub_pk], processes=1)
    reader = LogReader(folder)
    assert found == reader.root_at(LABEL, last)
    reader.close()


def test_another_key_and_parts_that_do_not_chain_are_refused(
    log: tuple[Path, PublicKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hub_pk = log
    with pytest.raises(VeenError, match="no trusted key"):
        verify_range.verify_range(folder, LABEL, 1, 5, [PublicKey(bytes(32))], processes=1)
    monkeypatch.setattr(verify_range, "PART_ENTRIES_MAX", 5)
    genuine = verify_range.verify_part

    def moved(part: Part) -> PartRoots:
        found = genuine(part)
        return replace(found, start=bytes(32)) if part.first > 5 else found

    monkeypatch.setattr(verify_range, "verify_part", moved)
    with pytest.raises(ProofError, match="does not go on"):
        verify_range.verify_range(folder, LABEL, 1, COUNT, [hub_pk], processes=1)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 19_999, 40_000, 100_000, 1_000_000])
def test_every_process_gets_as_many_parts_and_none_is_too_large(processes: int, count: int) -> None:
    borders = verify_range.cut(7, 6 + count, processes)
    assert (borders[0], borders[-1]) == (7, 7 + count)
    assert (len(borders) - 1) % processes == 0
    sizes = [after - before for before, after in pairwise(borders)]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= verify_range.PART_ENTRIES_MAX
