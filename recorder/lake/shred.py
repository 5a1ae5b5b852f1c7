"""Payload paths as columns of canonical sub-text: the sub-text of a path is its value [spark].

`payload_text` is canonical JSON, so the bytes that stand at a path are the only spelling of the
value there. They are cut out, never decoded and printed again: SQL null is a missing path, the
text `null` a null that is present. A path is shredded only where every segment can be a field name
of the decoder; queries reach all others through the exact one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
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
_OBJECT_STARTS: Final = ("{", b"{")


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


def shred(texts: Sequence[str | None], paths: Sequence[str]) -> dict[str, pa.Array]:
    """One column of sub-text for each path."""
    columns = _cut(texts, paths)
    return {path: pa.array(columns[path], pa.binary()).cast(pa.string()) for path in paths}


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


def _cut(
    texts: Sequence[str | bytes | None], paths: Sequence[str]
) -> dict[str, list[bytes | None]]:
    """The sub-texts of all paths, column by column and level by level."""
    tree: dict[str, list[str]] = {}
    for path in paths:
        key, _, rest = path.partition(".")
        tree.setdefault(key, []).append(rest)
    decode = _decoder(tuple(tree)).decode
    levels = [
        None if text is None or text[:1] not in _OBJECT_STARTS else decode(text) for text in texts
    ]
    columns: dict[str, list[bytes | None]] = {}
    for number, (key, rests) in enumerate(tree.items()):
        read = attrgetter(f"f{number}")
        found = [
            None if level is None or (raw := read(level)) is _MISSING else bytes(raw)
            for level in levels
        ]
        if "" in rests:
            columns[key] = found
        deeper = [rest for rest in rests if rest]
        if deeper:
            inner = _cut(found, deeper)
            columns |= {f"{key}.{rest}": inner[rest] for rest in deeper}
    return columns


def value_at(text: str, path: str) -> str | None:
    """The sub-text at one path that may be shredded, None when it is missing."""
    found = _cut([text], [path])[path][0]
    return None if found is None else found.decode()
