"""Constants and limits that another implementation of the core asserts too."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from hub import label
from hub.crypto.hashing import Tag
from hub.limits import DEFAULT
from hub.types import PublicKey, StreamId
from hub.wire.profile import PRODUCT
from hub.wire.rotation import hub_id_of
from tests.support.vectors import load

UPSTREAM = load("upstream_constants")
COUNTED = bytes(range(32))


def constant(start: str) -> Any:
    (found,) = (one["hex"] for one in UPSTREAM["constants"] if one["what"].startswith(start))
    return found


def test_a_tag_is_hashed_with_one_zero_byte_behind_it() -> None:
    assert Tag("veen/profile")(b"hello world").hex() == constant("Ht('veen/profile'")


def test_a_schema_is_the_plain_hash_of_its_name() -> None:
    assert sha256(b"wallet.open.v1").hexdigest() == constant("H('wallet.open.v1')")


def test_the_profile_with_epochs_of_a_minute() -> None:
    assert replace(PRODUCT, epoch_sec=60).id.hex() == constant("default profile_id")


def test_a_label_of_a_late_epoch() -> None:
    found = label.derive(b"routing-key", StreamId(COUNTED), 0x0123456789ABCDEF)
    assert found.hex() == constant("label(")


def test_hub_id_of_the_first_key() -> None:
    assert hub_id_of(PublicKey(COUNTED)).hex() == constant("hub_id(")


@pytest.mark.parametrize(
    ("stream", "tag"),
    [
        ("stream_fed_admin", "veen/admin"),
        ("stream_revocation", "veen/revocation"),
        ("stream_label_class", "veen/label-class"),
        ("stream_schema_meta", "veen/meta-schema"),
    ],
)
def test_the_admin_streams_of_a_realm(stream: str, tag: str) -> None:
    assert Tag(tag)(COUNTED).hex() == constant("admin streams")[stream]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("MAX_MSG_BYTES", DEFAULT.msg_bytes_max),
        ("MAX_BODY_BYTES", DEFAULT.body_bytes_max),
        ("MAX_HDR_BYTES", DEFAULT.hdr_bytes_max),
        ("MAX_PROOF_LEN", DEFAULT.proof_len_max),
        ("MAX_CAP_CHAIN", DEFAULT.cap_chain_max),
        ("MAX_ATTACHMENTS_PER_MSG", DEFAULT.attachments_per_msg_max),
        ("MAX_ATTACHMENT_BYTES", DEFAULT.attachment_bytes_max),
    ],
)
def test_the_limits_are_those_of_the_core(theirs: str, ours: int) -> None:
    assert UPSTREAM["limits"][theirs] == ours
