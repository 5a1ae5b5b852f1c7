from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.lake.folder import LakeFolder
from tests.support.recorded_log import RecordedLog, RecordedStream


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RecordedLog]:
    log = RecordedLog(tmp_path / "hub")
    yield log
    log.close()


@pytest.fixture
def stream() -> RecordedStream:
    return RecordedStream("record/app/web")


@pytest.fixture
def folder(tmp_path: Path, stream: RecordedStream) -> LakeFolder:
    return LakeFolder.of(tmp_path / "lake", stream.label)
