"""cap_token: what an issuer allows one subject, and for how long [SSOT 6].

Bytes: map {1 ver, 2 issuer_pk, 3 subject_pk, 4 allow {1 stream_ids, 2 ttl, 3? rate}, 5 sig_chain}.
Keys 1-4 are the *core*. Each link of sig_chain is one grant of ttl by the issuer, over the core and
the link before it; renewal appends a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

from hub.crypto import signing
from hub.crypto.hashing import CAP, CAP_LINK, h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.limits import DEFAULT, Limits
from hub.types import AuthRef, Hash, PublicKey, Signature, StreamId
from hub.wire import cbor

VER: Final = 1
NO_LINK: Final = bytes(64)  # stands for the signature before the first link


def _refusal(detail: str) -> WireError:
    return WireError(detail, ErrorCode.CAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A token bucket: per_sec tokens for each whole second, at most burst of them."""

    per_sec: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapToken:
    """A token that exists is canonical; only verify_chain says that its issuer signed it."""

    issuer_pk: PublicKey
    subject_pk: PublicKey
    stream_ids: tuple[StreamId, ...]
    ttl: int
    rate: Rate | None
    sig_chain: tuple[Signature, ...]

    @classmethod
    def decode(cls, data: bytes, limits: Limits = DEFAULT) -> Self:
        """Parse a token: E.SIZE over a limit, E.FORMAT for another shape, E.CAP for a bad rule."""
        if len(data) > limits.cap_bytes_max:
            raise WireError(f"token of {len(data)} bytes", ErrorCode.SIZE)
        reader = cbor.Reader(data)
        reader.map_length(minimum=5, maximum=5)
        reader.key(1).uint(exactly=VER)
        issuer_pk = PublicKey(reader.key(2).bstr(32))
        subject_pk = PublicKey(reader.key(3).bstr(32))
        fields = reader.key(4).map_length(minimum=2, maximum=3)
        streams = reader.key(1).array_length(maximum=limits.cap_bytes_max)
        stream_ids = tuple([StreamId(reader.bstr(32)) for _ in range(streams)])
        ttl = reader.key(2).uint()
        rate = _read_rate(reader.key(3)) if fields == 3 else None
        links = reader.key(5).array_length(maximum=limits.cap_bytes_max)
        sig_chain = tuple([Signature(reader.bstr(64)) for _ in range(links)])
        reader.end()
        token = cls(
            issuer_pk=issuer_pk,
            subject_pk=subject_pk,
            stream_ids=stream_ids,
            ttl=ttl,
            rate=rate,
            sig_chain=sig_chain,
        )
        token.check_rules(limits)
        return token

    def check_rules(self, limits: Limits = DEFAULT) -> None:
        """Raise unless the streams and the number of links are as the specification says."""
        if len(self.stream_ids) > limits.cap_streams_max:
            raise WireError(f"{len(self.stream_ids)} streams in a token", ErrorCode.SIZE)
        if not self.stream_ids:
            raise _refusal("a token needs at least one stream")
        if any(before >= after for before, after in pairwise(self.stream_ids)):
            raise _refusal("stream_ids are not sorted and unique")
        if not 1 <= len(self.sig_chain) <= limits.cap_chain_max:
            raise _refusal(f"{len(self.sig_chain)} links, allowed 1 to {limits.cap_chain_max}")

    def core(self) -> bytes:
        """CBOR of keys 1-4, which every link signs."""
        return b"\xa4" + self._fields()

    def encode(self) -> bytes:
        """Canonical bytes; for a decoded token the very bytes received."""
        links = cbor.head(cbor.ARRAY, len(self.sig_chain))
        return b"".join((b"\xa5", self._fields(), b"\x05", links, *map(cbor.bstr, self.sig_chain)))

    def _fields(self) -> bytes:
        parts = [
            b"\x01\x01\x02" + cbor.bstr(self.issuer_pk),
            b"\x03" + cbor.bstr(self.subject_pk),
            b"\x04" + (b"\xa2" if self.rate is None else b"\xa3"),
            b"\x01" + cbor.head(cbor.ARRAY, len(self.stream_ids)),
            *map(cbor.bstr, self.stream_ids),
            b"\x02" + cbor.uint(self.ttl),
        ]
        if self.rate is not None:
            parts.append(b"\x03\xa2\x01" + cbor.uint(self.rate.per_sec))
            parts.append(b"\x02" + cbor.uint(self.rate.burst))
        return b"".join(parts)

    def core_id(self) -> Hash:
        """H(core): what rate buckets, revocation and renewal belong to."""
        return Hash(h(self.core()))

    def auth_ref(self) -> AuthRef:
        """The name a MSG gives this token."""
        return AuthRef(CAP(self.encode()))

    def revocation_target(self) -> Hash:
        """H(CBOR(cap_token)): what a revocation of kind cap-token names."""
        return Hash(h(self.encode()))

    def prefixes(self) -> list[Self]:
        """The token with its first link, its first two, ... up to itself."""
        return [
            replace(self, sig_chain=self.sig_chain[:links])
            for links in range(1, len(self.sig_chain) + 1)
        ]

    def link_digests(self) -> list[bytes]:
        """What each link signs."""
        core = self.core()
        before = (NO_LINK, *self.sig_chain[:-1])
        return [CAP_LINK(core, previous) for previous in before]

    def verify_chain(self) -> None:
        """Raise E.CAP unless issuer_pk signed every link."""
        self.check_rules()  # bounds come before signature work
        for number, digest in enumerate(self.link_digests()):
            try:
                signing.verify(self.issuer_pk, self.sig_chain[number], digest)
            except VeenError as refusal:
                detail = f"link {number + 1} is not the issuer's"
                raise ProofError(detail, ErrorCode.CAP) from refusal

    @classmethod
    def issue(
        cls,
        issuer: SigningKey,
        *,
        subject_pk: bytes,
        stream_ids: Iterable[bytes],
        ttl: int,
        rate: Rate | None = None,
    ) -> Self:
        """A token with one link; the streams are brought into wire order."""
        blank = cls(
            issuer_pk=issuer.public,
            subject_pk=PublicKey(subject_pk),
            stream_ids=tuple([StreamId(item) for item in sorted(set(stream_ids))]),
            ttl=ttl,
            rate=rate,
            sig_chain=(),
        )
        return blank._linked(issuer)

    def renew(self, issuer: SigningKey, limits: Limits = DEFAULT) -> Self:
        """One more grant of ttl; at the longest chain a new core with ttl - 1."""
        if issuer.public != self.issuer_pk:
            raise VeenError(ErrorCode.POLICY, "only the issuer of a token renews it")
        if len(self.sig_chain) < limits.cap_chain_max:
            return self._linked(issuer)
        if self.ttl == 0:
            detail = "a token of ttl 0 has no shorter core to go on with"
            raise VeenError(ErrorCode.POLICY, detail)
        shorter = replace(self, ttl=self.ttl - 1, sig_chain=())
        return shorter._linked(issuer)  # noqa: SLF001 - of our own kind

    def _linked(self, issuer: SigningKey) -> Self:
        previous = self.sig_chain[-1] if self.sig_chain else NO_LINK
        link = issuer.sign(CAP_LINK(self.core(), previous))
        token = replace(self, sig_chain=(*self.sig_chain, link))
        token.check_rules()
        return token


def _read_rate(reader: cbor.Reader) -> Rate:
    reader.map_length(minimum=2, maximum=2)
    return Rate(per_sec=reader.key(1).uint(), burst=reader.key(2).uint())
