"""Hypothesis strategies and mutations shared by the tests of wire objects."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from hub.wire import cbor

uint64 = st.integers(0, 2**64 - 1) | st.sampled_from(
    [edge + step for edge in (24, 2**8, 2**16, 2**32) for step in (-1, 0)] + [0, 2**64 - 1]
)
bytes32 = st.binary(min_size=32, max_size=32)
bytes64 = st.binary(min_size=64, max_size=64)

_scalars = (
    uint64
    | st.integers(-(2**64), -1)
    | st.binary(max_size=40)
    | st.text(max_size=40)
    | st.booleans()
    | st.none()
)


def _ascending(pairs: dict[int, cbor.Value]) -> dict[int, cbor.Value]:
    return {key: pairs[key] for key in sorted(pairs)}


# Everything an overlay body may hold.
values: st.SearchStrategy[cbor.Value] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=10), inner, max_size=5)
        | st.dictionaries(uint64, inner, max_size=5).map(_ascending)
    ),
    max_leaves=20,
)


def flipped_bits(data: bytes) -> Iterator[bytes]:
    """Every copy of the bytes with exactly one bit changed."""
    for position, byte in enumerate(data):
        for bit in range(8):
            yield data[:position] + bytes((byte ^ (1 << bit),)) + data[position + 1 :]
