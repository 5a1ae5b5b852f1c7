from __future__ import annotations

import pytest

from hub.errors import ErrorCode
from hub.storage import frames
from hub.storage.frames import Damage

WHERE = "a.seg"


def test_a_frame_is_read_back_with_its_kind_and_end() -> None:
    data = b"head" + frames.frame(frames.MSG, b"payload") + b"tail"
    found = frames.read_frame(data, 4, WHERE)
    assert (found.kind, found.payload, data[found.end :]) == (frames.MSG, b"payload", b"tail")


def test_every_flipped_bit_of_a_frame_is_damage() -> None:
    whole = frames.frame(frames.RECEIPT, b"some payload")
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damage):
            frames.read_frame(bytes(changed), 0, WHERE)


@pytest.mark.parametrize("length", range(len(frames.frame(frames.MSG, b"xyz"))))
def test_a_frame_that_is_cut_anywhere_is_damage(length: int) -> None:
    with pytest.raises(Damage):
        frames.read_frame(frames.frame(frames.MSG, b"xyz")[:length], 0, WHERE)


def test_damage_names_file_and_offset() -> None:
    data = frames.frame(frames.MSG, b"good") + b"\x00" * 40
    with pytest.raises(Damage) as caught:
        list(frames.scan(data, 0, WHERE))
    assert caught.value.code is ErrorCode.DAMAGE
    assert (caught.value.where, caught.value.offset) == (WHERE, len(data) - 40)


def test_a_length_of_gigabytes_is_refused_before_anything_is_read() -> None:
    with pytest.raises(Damage, match="past the end"):
        frames.read_frame(b"\xff" * 64, 0, WHERE)


def test_commits_are_found_behind_garbage_and_inside_other_bytes() -> None:
    commit = frames.commit(2, 7)
    data = b"garbage" + commit + frames.frame(frames.MSG, b"a" + commit + b"b") + commit[:-1]
    found = [one.offset for one in frames.commits(data, 0, WHERE)]
    assert found == [7, 7 + len(commit) + frames.HEAD_BYTES + 1]


@pytest.mark.parametrize(
    ("start", "lost", "expected"),
    [
        (100, range(100, 512), True),  # the first sector never got the new bytes
        (100, range(512, 1024), True),
        (100, range(1024, 1100), True),
        (100, range(200, 300), False),  # no sector is lost by halves
        (100, range(512, 1023), False),
    ],
)
def test_a_power_cut_is_told_from_other_flaws_by_whole_sectors(
    start: int, lost: range, *, expected: bool
) -> None:
    data = bytearray(b"\xaa" * 1100)
    for place in lost:
        data[place] = 0
    assert frames.was_never_synced(bytes(data), start, 1100) is expected
