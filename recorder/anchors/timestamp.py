"""RFC 3161 timestamps: a time-stamping authority signs that it saw the manifest_id [ANCHOR0.1].

The body of the anchor_ref is the TimeStampResp as it came. It is verified offline against the
authority's certificates, which are pinned in a file and never taken from the answer: the chain of
the signer ends at a self-signed one of them, and a time-stamping one among them must be the signer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from hub.crypto.hashing import h
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import ManifestId, UnixSeconds
from recorder.anchors.anchor import Anchored, AnchorRef
from recorder.anchors.der import sorted_certificates
from recorder.anchors.outbound import post

NAME: Final = "rfc3161"
REQUEST_TYPE: Final = "application/timestamp-query"
ANSWER_TYPE: Final = "application/timestamp-reply"
TIMEOUT_S: Final = 15.0
_CERTIFICATES_MAX: Final = 16
# What library and parser raise for bytes that somebody made up; they have no common name.
_FLAWS: Final = (
    VerificationError, ValueError, UnsupportedAlgorithm, x509.InvalidVersion,
    x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
_SHA256: Final = "2.16.840.1.101.3.4.2.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedCertificates:
    """What the operator trusts of a time-stamping authority."""

    roots: tuple[x509.Certificate, ...]
    intermediates: tuple[x509.Certificate, ...] = ()
    signer: x509.Certificate | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """A PEM file with at least one self-signed certificate; C.CONFIG otherwise."""
        try:
            found = x509.load_pem_x509_certificates(path.read_bytes())
        except (OSError, ValueError) as flaw:
            raise VeenError(ErrorCode.CONFIG, f"{path} holds no certificates: {flaw}") from flaw
        if len(found) > _CERTIFICATES_MAX:
            raise VeenError(ErrorCode.CONFIG, f"{path} holds more than {_CERTIFICATES_MAX}")
        roots = tuple(one for one in found if one.issuer == one.subject)
        others = [one for one in found if one.issuer != one.subject]
        signers = [one for one in others if _is_time_stamping(one)]
        if not roots or len(signers) > 1:
            detail = f"{path} needs a self-signed certificate and at most one that stamps times"
            raise VeenError(ErrorCode.CONFIG, detail)
        return cls(
            roots=roots,
            intermediates=tuple(one for one in others if one not in signers),
            signer=signers[0] if signers else None,
        )


def _is_time_stamping(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        return False
    return ExtendedKeyUsageOID.TIME_STAMPING in usage.value


class Timestamps:
    """The backend; without a URL it verifies only."""

    name = NAME

    def __init__(
        self,
        certificates: PinnedCertificates,
        url: str | None = None,
        *,
        allowed: Collection[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._certificates = certificates
        self._url = url
        self._allowed = frozenset(allowed)
        self._timeout_s = timeout_s

    def publish(self, manifest_id: ManifestId, now: UnixSeconds) -> AnchorRef:  # noqa: ARG002 - the authority's clock counts, not ours
        """Ask the authority, and believe its answer only after verifying it."""
        if self._url is None:
            raise VeenError(ErrorCode.CONFIG, "no time-stamping authority is configured")
        request = (
            TimestampRequestBuilder().data(manifest_id).hash_algorithm(HashAlgorithm.SHA256).build()
        )
        data = post(
            self._url,
            request.as_bytes(),
            allowed=self._allowed,
            content_type=REQUEST_TYPE,
            accept=ANSWER_TYPE,
            timeout_s=self._timeout_s,
        )
        self._verify(data, manifest_id, nonce=request.nonce)
        return AnchorRef(backend=NAME, body=data)

    def verify(self, ref: AnchorRef, manifest_id: ManifestId) -> Anchored:
        """Raise unless a pinned authority signed exactly this manifest_id."""
        if ref.backend != NAME:
            raise VeenError(ErrorCode.FORMAT, f"an anchor of {ref.backend!r}, not a timestamp")
        return self._verify(ref.body, manifest_id)

    def _verify(self, data: bytes, manifest_id: ManifestId, nonce: int | None = None) -> Anchored:
        pinned = self._certificates
        answer = _decode(data)
        verifier = VerifierBuilder(
            tsa_certificate=pinned.signer,
            intermediates=list(pinned.intermediates),
            roots=list(pinned.roots),
            nonce=nonce,
        ).build()
        try:
            verifier.verify(answer, h(manifest_id))
            told = answer.tst_info
        except _FLAWS as flaw:
            raise ProofError(f"the timestamp does not hold: {flaw}", ErrorCode.TRUST) from flaw
        # The library compares the hash and not which function made it.
        if told.message_imprint.hash_algorithm.dotted_string != _SHA256:
            raise ProofError("the timestamp is over another hash function", ErrorCode.TRUST)
        return Anchored(
            at=UnixSeconds(int(told.gen_time.timestamp())),
            witness=f"timestamp {told.serial_number:x}",
        )


def _decode(data: bytes) -> TimeStampResponse:
    ordered = sorted_certificates(data)
    try:
        answer = decode_timestamp_response(ordered)
        again = answer.as_bytes()
    except _FLAWS as flaw:
        raise VeenError(ErrorCode.FORMAT, f"not a timestamp: {flaw}") from flaw
    if again != ordered:
        raise VeenError(ErrorCode.FORMAT, "the timestamp is not in its only spelling")
    return answer
