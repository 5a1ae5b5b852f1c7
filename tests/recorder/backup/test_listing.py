"""The signed list of a backup: one spelling, and no path that leads out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto.hashing import h
from hub.errors import VeenError, WireError
from hub.types import HubId, Label, ManifestId, MmrRoot, PublicKey, StreamSeq, UnixSeconds
from recorder.backup.listing import FileEntry, Head, Listing
from tests.recorder.backup.conftest import TRUST

LISTING = Listing(
    created_at=UnixSeconds(7),
    hub_id=HubId(h(b"hub")),
    hub_pk=PublicKey(h(b"key")),
    manifest_id=ManifestId(h(b"manifest")),
    entries=3,
    heads=(Head(label=Label(h(b"label")), seq=StreamSeq(3), root=MmrRoot(h(b"root"))),),
    database="sqlite",
    has_secrets=False,
    files=(FileEntry(path="hub/FORMAT", bytes=5, sha256="ab" * 32),),
)


def test_decoding_gives_back_what_was_encoded() -> None:
    for listing in (LISTING, replace(LISTING, manifest_id=None, heads=(), files=())):
        assert Listing.decode(listing.encode()) == listing


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a/.ssh/x",
        "a\\b",
        "a\nb",
        "a b",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(WireError):
        FileEntry(path=path, bytes=1, sha256="ab" * 32)


@given(at=st.integers(0, 10**6), value=st.integers(1, 255))
def test_a_changed_byte_is_another_listing_or_none(at: int, value: int) -> None:
    data = bytearray(LISTING.encode())
    data[at % len(data)] ^= value
    try:
        found = Listing.decode(bytes(data))
    except VeenError:
        return
    assert found != LISTING
    with pytest.raises(VeenError):
        found.verify(LISTING.sign(TRUST), TRUST.public)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"ver":1}', b"null", LISTING.encode() + b"\n", b" {}"]
)
def test_other_texts_are_refused(text: bytes) -> None:
    with pytest.raises(VeenError):
        Listing.decode(text)


def test_files_stand_in_order_and_once() -> None:
    one = FileEntry(path="a", bytes=1, sha256="ab" * 32)
    two = FileEntry(path="b", bytes=1, sha256="ab" * 32)
    for files in ((two, one), (one, one)):
        with pytest.raises(WireError):
            replace(LISTING, files=files)
