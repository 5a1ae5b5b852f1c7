"""The pack as bytes: one spelling, bounded, and no other file is taken for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, VeenError, WireError
from hub.limits import DEFAULT
from recorder.evidence import pack as packs
from recorder.evidence.pack import Pack, is_pack
from recorder.evidence.page import extract, is_page, render
from tests.recorder.evidence.packs import CHAIN, make_pack, raw_encode


@pytest.mark.parametrize("is_open", [True, False])
def test_decoding_gives_back_what_was_encoded(*, is_open: bool) -> None:
    pack = make_pack(is_open=is_open, keys=CHAIN)
    data = pack.encode()
    assert Pack.decode(data) == pack
    assert Pack.decode(data).encode() == data
    assert is_pack(data)
    assert not is_pack(pack.msg)


def test_no_cut_and_no_extra_byte_is_taken() -> None:
    data = make_pack().encode()
    for end in range(len(data)):
        with pytest.raises(WireError):
            Pack.decode(data[:end])
    with pytest.raises(WireError):
        Pack.decode(data + b"\x00")


@given(at=st.integers(0, 10**6), value=st.integers(1, 255))
def test_a_changed_byte_raises_nothing_but_a_refusal(at: int, value: int) -> None:
    data = bytearray(make_pack(2, 3).encode())
    data[at % len(data)] ^= value
    try:
        found = Pack.decode(bytes(data))
    except VeenError:
        return
    assert raw_encode(found) == bytes(data)


@pytest.mark.parametrize(
    ("name", "size"),
    [("msg", DEFAULT.msg_bytes_max), ("receipt", packs.OBJECT_BYTES_MAX),
     ("proof", packs.OBJECT_BYTES_MAX), ("checkpoint", packs.OBJECT_BYTES_MAX),
     ("manifest", packs.MANIFEST_BYTES_MAX)],
)  # fmt: skip
def test_every_object_has_its_bound(name: str, size: int) -> None:
    pack = make_pack(1, 1)
    Pack.decode(raw_encode(replace(pack, **{name: bytes(size)})))  # type: ignore[arg-type]
    with pytest.raises(WireError):
        Pack.decode(raw_encode(replace(pack, **{name: bytes(size + 1)})))  # type: ignore[arg-type]


def test_a_file_beyond_all_bounds_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError) as refusal:
        Pack.decode(bytes(packs.PACK_BYTES_MAX + 1))
    assert refusal.value.code is ErrorCode.SIZE
    claimed = b"\xaa" + packs.PREFIX + bytes.fromhex("63766572 01".replace(" ", ""))
    with pytest.raises(WireError):
        Pack.decode(claimed + b"\x66hub_id\x5b\xff\xff\xff\xff\xff\xff\xff\xff")


def test_a_stream_name_that_is_none_is_refused() -> None:
    for name in ("", "record", "record/../x", "Record/app", "record/app\n"):
        with pytest.raises(VeenError):
            Pack.decode(raw_encode(replace(make_pack(1, 1), stream=name)))


def test_the_secret_stands_in_no_text_about_the_pack() -> None:
    pack = make_pack(is_open=True)
    assert pack.opening is not None
    assert pack.opening.hex() not in repr(pack)
    assert repr(pack.opening) not in repr(pack)


def test_a_page_gives_its_pack_back_and_is_the_same_each_time() -> None:
    data = make_pack(is_open=True).encode()
    page = render(data).encode()
    assert is_page(page[:64])
    assert extract(page) == data
    assert render(data) == render(data)
    with pytest.raises(WireError):
        extract(render().encode())
    with pytest.raises(WireError):
        extract(page.replace(b'id="pack">', b'id="pack">='))


def test_the_page_allows_one_script_one_style_and_no_connection() -> None:
    head = render().partition("<body>")[0]
    policy = head.partition('Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy  # default-src forbids it
    assert "http:" not in head.replace("http://www.w3.org/2000/svg", "")
