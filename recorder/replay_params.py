"""What a replay asks for, as a query string says it [SDR0 3.2.5; interfaces]."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hub.types import ManifestId
from recorder.codes import RecordCode, RecordError
from recorder.event import UnixMillis, parse_time

STREAMS_MAX: Final = 64
SEQ_MAX: Final = 2**63 - 1
_HEX32: Final = re.compile(r"[0-9a-f]{64}")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
PARAMETERS: Final = (
    "stream", "from_seq", "to_seq", "start_time", "end_time", "with_proofs", "manifest",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRange:
    """What to replay: an inclusive range of one stream, or an inclusive window of several."""

    streams: tuple[str, ...]  # each once, in the order of the answer
    from_seq: int | None = None
    to_seq: int | None = None
    start_ms: UnixMillis | None = None
    end_ms: UnixMillis | None = None
    with_proofs: bool = False
    manifest_id: ManifestId | None = None

    def __post_init__(self) -> None:
        if not self.streams:
            raise _refusal("Name at least one stream.")
        if len(self.streams) > STREAMS_MAX:
            raise _refusal(f"A replay reads at most {STREAMS_MAX} streams.")
        is_range = self.from_seq is not None or self.to_seq is not None
        is_window = self.start_ms is not None or self.end_ms is not None
        if is_range and is_window:
            raise _refusal("Give a range of sequences or a window of time, not both.")
        if is_range and len(self.streams) > 1:
            raise _refusal("A range of sequences is of one stream; several take a window of time.")
        if 0 in (self.from_seq, self.to_seq):
            raise _refusal("Sequences start at 1.")
        if _is_reversed(self.from_seq, self.to_seq) or _is_reversed(self.start_ms, self.end_ms):
            raise _refusal("The end lies before the start.")

    @property
    def is_window(self) -> bool:
        """Whether commit times choose, and not sequences."""
        return self.start_ms is not None or self.end_ms is not None


def parse(given: Mapping[str, Sequence[str]]) -> ReplayRange:
    """The parameters of a request, or invalid_parameter."""
    for name, values in given.items():
        if name not in PARAMETERS:
            shown = ", ".join(PARAMETERS)
            raise _refusal(f"Unknown parameter {name[:64]!r}; a replay takes {shown}.")
        if name != "stream" and len(values) > 1:
            raise _refusal(f"{name} is given more than once.")
    found = {name: values[0] for name, values in given.items() if values}
    return ReplayRange(
        streams=tuple(sorted(set(given.get("stream", ())))),
        from_seq=_seq(found, "from_seq"),
        to_seq=_seq(found, "to_seq"),
        start_ms=_time(found, "start_time"),
        end_ms=_time(found, "end_time"),
        with_proofs=_flag(found, "with_proofs"),
        manifest_id=_manifest(found),
    )


def _seq(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not _DIGITS.fullmatch(text) or int(text) > SEQ_MAX:
        raise _refusal(f"{name} is not a sequence number.")
    return int(text)


def _time(found: Mapping[str, str], name: str) -> UnixMillis | None:
    text = found.get(name)
    if text is None:
        return None
    try:
        # Cutting further digits would move the end of a window.
        return parse_time(text, fraction_digits_max=3)
    except ValueError as flaw:
        raise _refusal(f"{name}: {flaw}.") from flaw


def _flag(found: Mapping[str, str], name: str) -> bool:
    text = found.get(name, "0")
    if text not in ("0", "1"):
        raise _refusal(f"{name} is 0 or 1.")
    return text == "1"


def _manifest(found: Mapping[str, str]) -> ManifestId | None:
    text = found.get("manifest")
    if text is None:
        return None
    if not _HEX32.fullmatch(text):
        raise _refusal("manifest is not 64 lower-case hex digits.")
    return ManifestId(bytes.fromhex(text))


def _is_reversed(first: int | None, last: int | None) -> bool:
    return first is not None and last is not None and last < first


def _refusal(message: str) -> RecordError:
    return RecordError(RecordCode.INVALID_PARAMETER, message)
