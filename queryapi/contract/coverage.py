"""Coverage: which part of which log an answer is about, pinned at submit [query, coverage]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hub.canonical_json import Value
from hub.types import HubId, Label, MmrRoot
from queryapi.contract.reading import Flaws, Steps

HEX32: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEYS: Final = ("stream", "label", "hub_id", "from_seq", "to_seq", "mmr_root")
_SEQ_MAX: Final = 2**63 - 1  # what a lake's column holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """One stream's part: sequences from_seq..to_seq of a log whose root at to_seq is mmr_root."""

    stream: str
    label: Label
    hub_id: HubId
    from_seq: int  # the first sequence whose payload is retained
    to_seq: int  # 0 for an empty stream, which has no root
    mmr_root: MmrRoot | None

    def to_json(self) -> dict[str, Value]:
        """As the normalized descriptor has it."""
        return {
            "stream": self.stream,
            "label": self.label.hex(),
            "hub_id": self.hub_id.hex(),
            "from_seq": self.from_seq,
            "to_seq": self.to_seq,
            "mmr_root": None if self.mmr_root is None else self.mmr_root.hex(),
        }


def coverage_to_json(coverage: Sequence[Coverage]) -> list[Value]:
    """The list of `meta.coverage`."""
    return [entry.to_json() for entry in coverage]


def read_coverage(found: object, flaws: Flaws, *steps: str | int) -> tuple[Coverage, ...]:
    """The entries of a recorded coverage; what is wrong with them goes to `flaws`."""
    if not isinstance(found, list):
        flaws.add("not a list", *steps)
        return ()
    entries = [_entry(one, flaws, (*steps, index)) for index, one in enumerate(found)]
    names = [entry.stream for entry in entries]
    if not flaws and names != sorted(set(names)):
        flaws.add("not sorted by stream", *steps)
    return tuple(entries)


def _entry(found: object, flaws: Flaws, steps: Steps) -> Coverage:
    fields = flaws.members(found, _KEYS, *steps)
    stream = fields.get("stream")
    if not isinstance(stream, str):
        flaws.add("not text", *steps, "stream")
    to_seq = _seq(fields, "to_seq", 0, flaws, steps)
    from_seq = _seq(fields, "from_seq", 1, flaws, steps)
    if from_seq > to_seq + 1:
        flaws.add("behind to_seq", *steps, "from_seq")
    root = fields.get("mmr_root")
    is_root_due = to_seq > 0
    if is_root_due is (root is None):
        flaws.add("null for an empty stream, and only then", *steps, "mmr_root")
    return Coverage(
        stream=str(stream),
        label=Label(_hash(fields, "label", flaws, steps)),
        hub_id=HubId(_hash(fields, "hub_id", flaws, steps)),
        from_seq=from_seq,
        to_seq=to_seq,
        mmr_root=None if root is None else MmrRoot(_hash(fields, "mmr_root", flaws, steps)),
    )


def _hash(fields: dict[str, object], key: str, flaws: Flaws, steps: Steps) -> bytes:
    text = fields.get(key)
    if not isinstance(text, str) or not HEX32.fullmatch(text):
        flaws.add("not 64 lower-case hex digits", *steps, key)
        return b""
    return bytes.fromhex(text)


def _seq(fields: dict[str, object], key: str, least: int, flaws: Flaws, steps: Steps) -> int:
    number = fields.get(key)
    if isinstance(number, int) and not isinstance(number, bool) and least <= number <= _SEQ_MAX:
        return number
    flaws.add("not a sequence", *steps, key)
    return least
