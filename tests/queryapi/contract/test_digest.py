from __future__ import annotations

from decimal import Decimal

import pytest

from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import WireError
from queryapi.contract.descriptor import EvidencePolicy, Mode
from queryapi.contract.digest import ResultDigest, compare

DIGEST = ResultDigest(
    query_id="q-1",
    result_id="r-1",
    row_count=3,
    evidence_policy=EvidencePolicy(mode=Mode.SPOT, sample_rate=Decimal("0.1")),
    rows_hash="ab" * 32,
    evidence_hash="cd" * 32,
    executed_at="2026-03-01T09:00:00.000Z",
    hub_id="ef" * 32,
    profile_id="01" * 32,
    unreadable_count=1,
)


def test_a_digest_reads_back_as_itself() -> None:
    assert ResultDigest.decode(canonical_json.parse(DIGEST.canonical())) == DIGEST


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"row_count": -1}, {"row_count": True}, {"row_count": "3"},
        {"rows_hash": "AB" * 32}, {"hub_id": 1}, {"more": 1}, {"evidence_policy": []},
        {"evidence_policy": {"mode": "some"}}, {"query_id": None},
        {"evidence_policy": {"mode": "spot", "sample_rate": "0.1"}},
        {"evidence_policy": {"mode": "spot", "rate": 1}},
    ],
)  # fmt: skip
def test_anything_else_is_no_digest(change: dict[str, Value]) -> None:
    with pytest.raises(WireError):
        ResultDigest.decode(DIGEST.to_json() | change)


def test_no_object_is_no_digest() -> None:
    with pytest.raises(WireError):
        ResultDigest.decode([])


def test_a_comparison_names_what_differs_and_starts_with_what_could_be_read() -> None:
    other = ResultDigest.decode(DIGEST.to_json() | {"rows_hash": "00" * 32, "hub_id": "00" * 32})
    found = compare(DIGEST, other)
    assert [one.field for one in found if not one.equal] == ["rows_hash"]
    fields = [one.field for one in found]
    assert fields.index("unreadable_count") < fields.index("row_count")
    assert found[0].to_json() == {
        "field": "query_id",
        "theirs": "q-1",
        "ours": "q-1",
        "equal": True,
    }
