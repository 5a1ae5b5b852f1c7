from __future__ import annotations

from hashlib import sha256

import pytest

from hub.crypto import hashing
from tests.support import vectors
from tests.support.vectors import Section, unhex


@pytest.mark.parametrize("entry", vectors.load("schema_ids")["plain"], ids=lambda e: e["name"])
def test_a_schema_id_is_the_hash_of_its_name(entry: Section) -> None:
    assert hashing.h(entry["name"].encode()) == unhex(entry["schema_id"])


@pytest.mark.parametrize("entry", vectors.load("schema_ids")["operations"], ids=lambda e: e["name"])
def test_an_operation_schema_id_is_the_hash_of_its_prefixed_name(entry: Section) -> None:
    assert hashing.h(b"veen/schema:" + entry["name"].encode()) == unhex(entry["schema_id"])


def test_the_hub_id_is_the_tagged_hash_of_the_hub_key() -> None:
    hub = vectors.load("identifiers")["hub"]
    assert hashing.HUB_ID(unhex(hub["hub_pk"])) == unhex(hub["hub_id"])


def test_a_tag_is_separated_from_its_parts_by_one_zero_byte() -> None:
    expected = sha256(b"veen/sig\x00one two").digest()
    assert hashing.SIG(b"one", b" ", b"two") == expected
    assert hashing.SIG(b"one two") == expected


def test_no_two_tags_have_one_name() -> None:
    tags = [value for value in vars(hashing).values() if isinstance(value, hashing.Tag)]
    assert len({tag.name for tag in tags}) == len(tags) > 20
