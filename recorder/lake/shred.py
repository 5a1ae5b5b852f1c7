"""Payload paths as columns of canonical sub-text: the sub-text of a path is its value [spark].

`payload_text` is canonical JSON, so the bytes that stand at a path are the only spelling of the
value there. They are cut out, never decoded and printed again: SQL null is a missing path, the
text `null` a null that is present. A path is shredded only where every segment can be a field name
of the decoder; queries reach all others through the exact one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

PATHS_MAX: Final = 32
DEPTH_MAX: Final = 4
SAMPLE_MAX: Final = 1_000
FREQUENT_SHARE: Final = 50  # a path is frequent when one of so many sampled payloads has it
_VALUE_BYTES_MAX: Final = 256  # longer values are looked at, not filtered by
# What msgspec takes as a name; '.' separates segments, and a number may be an array's index.
_KEY: Final = re.compile(r'(?![0-9]+$)[^."\\\x00-\x1f]{1,64}')
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MISSING: Final = msgspec.UNSET


def frequent_paths(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Paths that enough payloads have, by name; a function of the texts alone."""
    step = max(1, len(texts) // SAMPLE_MAX)
    sample = [text for text in texts[::step] if text is not None]
    counts = Counter(path for text in sample for path in _leaf_paths(text))
    enough = max(1, len(sample) // FREQUENT_SHARE)
    ranked = sorted((-count, path) for path, count in counts.items() if count >= enough)
    return tuple(sorted(path for _, path in ranked[:PATHS_MAX]))


def _leaf_paths(text: str) -> Iterator[str]:
    if not text.startswith("{"):
        return
    levels: list[tuple[str, msgspec.Raw | bytes]] = [("", text.encode())]
    while levels:
        prefix, raw = levels.pop()
        for key, value in _OBJECT.decode(raw).items():
            path = prefix + key
            if not _KEY.fullmatch(key):
                continue
            found = bytes(value)
            if found[:1] == b"{":
                if path.count(".") + 1 < DEPTH_MAX:
                    levels.append((f"{path}.", found))
            elif len(found) <= _VALUE_BYTES_MAX:
                yield path


def shred(texts: Iterable[str | None], paths: Sequence[str]) -> dict[str, pa.Array]:
    """One column of sub-text for each path."""
    cut = _Cutter(paths)
    columns: list[list[bytes | None]] = [[] for _ in paths]
    nothing = (None,) * len(paths)
    for text in texts:
        found = nothing if text is None else cut(text)
        for column, value in zip(columns, found, strict=True):
            column.append(value)
    return {
        path: pa.array(column, pa.binary()).cast(pa.string())
        for path, column in zip(paths, columns, strict=True)
    }


@lru_cache(maxsize=256)
def _decoder(keys: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads the named keys of an object as raw bytes and skips all others."""
    names = [f"f{number}" for number in range(len(keys))]
    struct = msgspec.defstruct(
        "Level",
        [(name, msgspec.Raw, _MISSING) for name in names],
        rename=dict(zip(names, keys, strict=True)),
        gc=False,
    )
    return msgspec.json.Decoder(struct)


class _Cutter:
    """Cuts the sub-texts of some paths out of one canonical text, level by level."""

    __slots__ = ("_children", "_decoder", "_leaves", "_names", "_size")

    def __init__(self, paths: Sequence[str]) -> None:
        tree: dict[str, list[tuple[int, str]]] = {}
        for number, path in enumerate(paths):
            key, _, rest = path.partition(".")
            tree.setdefault(key, []).append((number, rest))
        keys = tuple(tree)
        self._size = len(paths)
        self._decoder = _decoder(keys)
        self._names = tuple([f"f{number}" for number in range(len(keys))])
        self._leaves = tuple([
            tuple([number for number, rest in tree[key] if not rest]) for key in keys
        ])  # fmt: skip
        self._children: tuple[tuple[tuple[int, ...], _Cutter] | None, ...] = tuple([
            _child([(number, rest) for number, rest in tree[key] if rest]) for key in keys
        ])  # fmt: skip

    def __call__(self, text: str | bytes) -> Sequence[bytes | None]:
        found: list[bytes | None] = [None] * self._size
        if text[:1] not in ("{", b"{"):
            return found
        level = self._decoder.decode(text)
        for name, leaves, child in zip(self._names, self._leaves, self._children, strict=True):
            raw = getattr(level, name)
            if raw is _MISSING:
                continue
            value = bytes(raw)
            for number in leaves:
                found[number] = value
            if child is not None:
                for number, inner in zip(child[0], child[1](value), strict=True):
                    found[number] = inner
        return found


def _child(rests: Sequence[tuple[int, str]]) -> tuple[tuple[int, ...], _Cutter] | None:
    if not rests:
        return None
    return tuple([number for number, _ in rests]), _Cutter([rest for _, rest in rests])


def value_at(text: str, path: str) -> str | None:
    """The sub-text at one path that may be shredded, None when it is missing."""
    found = _Cutter([path])(text)[0]
    return None if found is None else found.decode()
