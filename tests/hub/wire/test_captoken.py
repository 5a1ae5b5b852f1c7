from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.limits import DEFAULT, Limits
from hub.wire.captoken import CapToken, Rate
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import Section, load, unhex

VECTORS = load("cap_tokens")
ISSUER = SigningKey(bytes([1]) * 32)
STRANGER = SigningKey(bytes([2]) * 32)
SUBJECT = SigningKey(bytes([3]) * 32).public
STREAMS = tuple(bytes([number]) * 32 for number in (9, 5, 7))

tokens = st.builds(
    CapToken,
    issuer_pk=bytes32,
    subject_pk=bytes32,
    stream_ids=st.sets(bytes32, min_size=1, max_size=5).map(lambda found: tuple(sorted(found))),
    ttl=uint64,
    rate=st.none() | st.builds(Rate, per_sec=uint64, burst=uint64),
    sig_chain=st.lists(bytes64, min_size=1, max_size=8).map(tuple),
)


def issued(**fields: object) -> CapToken:
    chosen = {"subject_pk": SUBJECT, "stream_ids": STREAMS, "ttl": 600, **fields}
    return CapToken.issue(ISSUER, **chosen)  # type: ignore[arg-type]


def _code(data: bytes, limits: Limits = DEFAULT) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        CapToken.decode(data, limits).verify_chain()
    return refusal.value.code


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda vector: vector["name"])
def test_a_token_of_the_vectors_has_exactly_these_bytes(vector: Section) -> None:
    token = CapToken.decode(unhex(vector["cap_token_cbor"]))
    assert token.encode().hex() == vector["cap_token_cbor"]
    assert token.core().hex() == vector["signable_cbor"]
    assert [digest.hex() for digest in token.link_digests()] == vector["link_digests"]
    assert [link.hex() for link in token.sig_chain] == vector["sig_chain"]
    assert token.auth_ref().hex() == vector["auth_ref"]
    assert token.revocation_target().hex() == vector["revocation_target_cap_token"]
    token.verify_chain()


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda vector: vector["name"])
def test_issuing_and_renewing_makes_the_tokens_of_the_vectors(vector: Section) -> None:
    issuer = SigningKey(unhex(vector["issuer_seed"]))
    assert issuer.public.hex() == vector["issuer_pk"]
    token = CapToken.issue(
        issuer,
        subject_pk=unhex(vector["subject_pk"]),
        stream_ids=map(unhex, vector["stream_ids"]),
        ttl=vector["ttl"],
        rate=Rate(**vector["rate"]) if vector["rate"] else None,
    )
    while len(token.sig_chain) < len(vector["sig_chain"]):
        token = token.renew(issuer)
    assert token.encode().hex() == vector["cap_token_cbor"]


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=lambda vector: vector["name"])
def test_an_invalid_token_of_the_vectors_is_refused(vector: Section) -> None:
    expected = {"E.CAP CAP_INVALID": ErrorCode.CAP, "decode error": ErrorCode.FORMAT}
    assert _code(unhex(vector["cbor"])) is expected[vector["reject"]]


@given(tokens)
def test_a_token_decodes_to_itself(token: CapToken) -> None:
    assert CapToken.decode(token.encode()) == token
    assert cbor2.dumps(cbor2.loads(token.encode())) == token.encode()


@pytest.mark.parametrize("rate", [None, Rate(per_sec=5, burst=300)])
def test_no_flipped_bit_of_a_token_survives(rate: Rate | None) -> None:
    token = issued(rate=rate).renew(ISSUER)
    for mutant in flipped_bits(token.encode()):
        assert _code(mutant) in {ErrorCode.FORMAT, ErrorCode.CAP}


def test_issue_sorts_streams_and_keeps_each_once() -> None:
    token = issued(stream_ids=(*STREAMS, STREAMS[0]))
    assert token.stream_ids == tuple(sorted(STREAMS))
    token.verify_chain()


@pytest.mark.parametrize("fields", [{"stream_ids": ()}, {"stream_ids": STREAMS[:1] * 2},
                                    {"stream_ids": STREAMS}, {"sig_chain": ()}])  # fmt: skip
def test_a_broken_rule_is_refused_as_capability(fields: dict[str, tuple[bytes, ...]]) -> None:
    token = replace(issued(), **fields)  # type: ignore[arg-type]
    assert _code(token.encode()) is ErrorCode.CAP


def test_a_token_without_issuers_signature_is_refused() -> None:
    by_stranger = CapToken.issue(STRANGER, subject_pk=SUBJECT, stream_ids=STREAMS, ttl=600)
    assert _code(replace(by_stranger, issuer_pk=ISSUER.public).encode()) is ErrorCode.CAP


@pytest.mark.parametrize("links", range(1, 9))
def test_every_link_of_a_chain_is_verified(links: int) -> None:
    token = issued()
    for _ in range(7):
        token = token.renew(ISSUER)
    chain = list(token.sig_chain)
    chain[links - 1] = STRANGER.sign(token.link_digests()[links - 1])
    with pytest.raises(VeenError, match=f"link {links} is not"):
        replace(token, sig_chain=tuple(chain)).verify_chain()


def test_a_chain_with_links_reordered_or_taken_out_is_refused() -> None:
    token = issued().renew(ISSUER).renew(ISSUER)
    one, two, three = token.sig_chain
    for chain in ((two, one, three), (one, three), (two, three), (three,)):
        assert _code(replace(token, sig_chain=chain).encode()) is ErrorCode.CAP


def test_a_cut_chain_still_verifies_which_is_why_only_the_longest_counts() -> None:
    token = issued().renew(ISSUER).renew(ISSUER)
    for prefix in token.prefixes():
        prefix.verify_chain()
        assert prefix.core_id() == token.core_id()
    assert [len(prefix.sig_chain) for prefix in token.prefixes()] == [1, 2, 3]
    assert token.prefixes()[-1] == token


def test_renewal_keeps_the_core_and_makes_a_new_auth_ref() -> None:
    token = issued(rate=Rate(per_sec=1, burst=2))
    renewed = token.renew(ISSUER)
    renewed.verify_chain()
    assert renewed.core_id() == token.core_id()
    assert renewed.auth_ref() != token.auth_ref()
    assert renewed.sig_chain[:1] == token.sig_chain


def test_renewal_of_eight_links_makes_a_new_core_with_ttl_minus_one() -> None:
    token = issued(rate=Rate(per_sec=1, burst=2))
    for _ in range(7):
        token = token.renew(ISSUER)
    assert len(token.sig_chain) == 8
    successor = token.renew(ISSUER)
    successor.verify_chain()
    assert replace(successor, ttl=token.ttl, sig_chain=token.sig_chain) == token
    assert (successor.ttl, len(successor.sig_chain)) == (599, 1)
    assert successor.core_id() != token.core_id()


def test_a_token_of_ttl_0_cannot_go_on_behind_eight_links() -> None:
    token = issued(ttl=0)
    for _ in range(7):
        token = token.renew(ISSUER)
    with pytest.raises(VeenError, match="ttl 0"):
        token.renew(ISSUER)


def test_only_the_issuer_renews() -> None:
    with pytest.raises(VeenError) as refusal:
        issued().renew(STRANGER)
    assert refusal.value.code is ErrorCode.POLICY


def test_core_differs_with_every_field_but_the_chain() -> None:
    token = issued(rate=Rate(per_sec=1, burst=2))
    others = [
        replace(token, issuer_pk=STRANGER.public),
        replace(token, subject_pk=STRANGER.public),
        replace(token, stream_ids=token.stream_ids[:1]),
        replace(token, ttl=601),
        replace(token, rate=None),
        replace(token, rate=Rate(per_sec=1, burst=3)),
    ]
    assert len({item.core_id() for item in (token, *others)}) == 7


def test_limits_are_refused_as_size() -> None:
    token = issued()
    assert _code(token.encode(), replace(DEFAULT, cap_bytes_max=100)) is ErrorCode.SIZE
    assert _code(token.encode(), replace(DEFAULT, cap_streams_max=2)) is ErrorCode.SIZE
    assert _code(bytes(DEFAULT.cap_bytes_max + 1)) is ErrorCode.SIZE


def test_as_many_streams_as_allowed_are_taken_and_no_more() -> None:
    streams = [number.to_bytes(32, "big") for number in range(DEFAULT.cap_streams_max + 1)]
    token = issued(stream_ids=streams[:-1])
    assert CapToken.decode(token.encode()) == token
    with pytest.raises(VeenError) as refusal:
        issued(stream_ids=streams)
    assert refusal.value.code is ErrorCode.SIZE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xa5\x01\x01\x02\x5b\xff\xff\xff\xff\xff\xff\xff\xff",  # a claimed length
        b"\xa5\x01\x01\x02\x58\x20" + bytes(32) + b"\x03\x58\x20" + bytes(32)
        + b"\x04\xa2\x01\x9a\xff\xff\xff\xff",  # claimed streams
        b"\xa5\x01\x02",
        b"\xa4\x01\x01",
        b"\xbf\x01\x01",
    ],
)  # fmt: skip
def test_bytes_that_are_no_token_are_refused_as_format(data: bytes) -> None:
    assert _code(data) is ErrorCode.FORMAT
