"""The checkpoint ladder: manifests on a line of time, laid out for an SVG [experience 1.5: P1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hub.models import ManifestRow

WIDTH: Final = 960
HEIGHT: Final = 132
LEFT: Final = 36
RIGHT: Final = 924
LINE_Y: Final = 84
BAR_TOP: Final = 24
LABEL_EVERY_PX: Final = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One manifest: where it stands, how many messages it added, what to read on hover."""

    x: int
    top: int
    height: int
    added: int
    manifest: ManifestRow
    is_labelled: bool
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Ready for the template, which only writes numbers."""

    rungs: Sequence[Rung]
    now_x: int
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    line_y: int = LINE_Y
    text_y: int = LINE_Y + 28
    first_words: str = ""

    @property
    def summary(self) -> str:
        """The picture in words, for those who do not see it."""
        newest = self.rungs[-1].manifest
        return (
            f"{len(self.rungs)} checkpoint(s); the newest of {newest.created_at:%Y-%m-%d %H:%M:%S}"
            f" UTC covers {newest.messages} messages on {newest.labels} label(s)."
        )


def draw(manifests: Sequence[ManifestRow], *, now: datetime) -> Ladder:
    """Place manifests, oldest first, evenly: cadence is told by the times below them.

    On a scale of time a quiet night would press a busy hour into one blot.
    """
    assert manifests, "an empty ladder is a sentence, not a picture"
    step = (RIGHT - LEFT - 40) / max(1, len(manifests))
    added = [m.messages - p for m, p in zip(manifests, _before(manifests), strict=True)]
    most = max(1, *added)
    rungs: list[Rung] = []
    labelled_x = -LABEL_EVERY_PX
    for index, manifest in enumerate(manifests):
        x = round(LEFT + step * (index + 0.5))
        is_newest = index == len(manifests) - 1
        height = 6 + round((LINE_Y - BAR_TOP - 12) * max(0, added[index]) / most)
        is_labelled = x - labelled_x >= LABEL_EVERY_PX
        if is_labelled:
            labelled_x = x
        rungs.append(
            Rung(
                x=x,
                top=LINE_Y - 8 - height,
                height=height,
                added=added[index],
                manifest=manifest,
                is_labelled=is_labelled,
                is_newest=is_newest,
            )
        )
    return Ladder(rungs=rungs, now_x=RIGHT, first_words=age(now - manifests[-1].created_at))


def _before(manifests: Sequence[ManifestRow]) -> list[int]:
    """Messages covered before each manifest; before the first of the log there were none."""
    first = manifests[0]
    is_first_of_log = set(first.previous) == {"0"}
    return [0 if is_first_of_log else first.messages, *(m.messages for m in manifests[:-1])]


def age(elapsed: timedelta) -> str:
    """How long ago, in the one unit a person would use."""
    seconds = max(0, int(elapsed.total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
