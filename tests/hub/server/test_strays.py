from __future__ import annotations

from hub.server.strays import PAIRS_MAX, Strays
from hub.types import ClientId, Label

KEY = ClientId(bytes([1] * 32))


def label(number: int) -> Label:
    return Label(number.to_bytes(32, "big"))


def test_uses_of_one_key_on_one_label_are_counted_together() -> None:
    strays = Strays()
    for at in (5, 6, 9):
        strays.note(KEY, label(1), at)
    strays.note(KEY, label(2), 7)
    assert strays.listing() == [
        {"client_id": KEY.hex(), "label": label(1).hex(), "first": 5, "last": 9, "count": 3},
        {"client_id": KEY.hex(), "label": label(2).hex(), "first": 7, "last": 7, "count": 1},
    ]


def test_a_flood_pushes_out_the_longest_quiet_and_never_grows() -> None:
    strays = Strays()
    for number in range(PAIRS_MAX):
        strays.note(KEY, label(number), number)
    strays.note(KEY, label(0), PAIRS_MAX)  # used again, so it is not the longest quiet
    strays.note(KEY, label(PAIRS_MAX), PAIRS_MAX)
    found = [one["label"] for one in strays.listing()]
    assert len(found) == PAIRS_MAX
    assert label(0).hex() in found
    assert label(1).hex() not in found
