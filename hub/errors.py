"""Every refusal has a code, and every code stands in this one table [SSOT 8.2]."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ErrorCode(StrEnum):
    """Codes of the data plane and of the tools around it; they are contract."""

    FORMAT = "E.FORMAT"
    SIZE = "E.SIZE"
    PROFILE = "E.PROFILE"
    TIME = "E.TIME"
    SIG = "E.SIG"
    AUTH = "E.AUTH"
    CAP = "E.CAP"
    RATE = "E.RATE"
    DUP = "E.DUP"
    SEQ = "E.SEQ"
    NOTFOUND = "E.NOTFOUND"
    PRUNED = "E.PRUNED"
    BUSY = "E.BUSY"
    STORE = "E.STORE"
    INTERNAL = "E.INTERNAL"
    # Codes of tools; they never travel in an answer of the data plane.
    PROOF = "V.PROOF"
    TRUST = "V.TRUST"
    EQUIVOCATION = "V.EQUIVOCATION"
    DAMAGE = "S.DAMAGE"
    LOCKED = "S.LOCKED"
    BEHIND = "S.BEHIND"
    COPY = "S.COPY"
    KEYSTORE = "K.KEYSTORE"
    CONFIG = "C.CONFIG"
    UNREACHABLE = "N.UNREACHABLE"
    PROTOCOL = "N.PROTOCOL"
    POLICY = "P.POLICY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """What a code means to a peer (status), to a script (exit) and to a person."""

    status: int
    exit_code: int
    sentence: str
    remedy: str


def _info(status: int, exit_code: int, sentence: str, remedy: str) -> ErrorInfo:
    return ErrorInfo(status=status, exit_code=exit_code, sentence=sentence, remedy=remedy)


ERRORS: Final[dict[ErrorCode, ErrorInfo]] = {
    ErrorCode.FORMAT: _info(
        400,
        4,
        "The bytes are not the object they claim to be: not canonical CBOR, wrong shape, "
        "ct_hash does not match, or a bad parameter.",
        "Encode with a conforming library; `veen inspect` shows where the object goes wrong.",
    ),
    ErrorCode.SIZE: _info(
        413, 4, "A size limit is exceeded.", "`veen hub profile` lists the limits of this hub."
    ),
    ErrorCode.PROFILE: _info(
        400,
        4,
        "The hub does not take messages of this profile_id.",
        "Use a profile_id that `veen hub profile` lists.",
    ),
    ErrorCode.TIME: _info(
        400,
        4,
        "The epoch is outside the window, a capability's ttl is over, or the hub's clock "
        "is not trusted.",
        "Renew the capability (`veen cap renew`); for a clock, see `veen hub clock`.",
    ),
    ErrorCode.SIG: _info(
        409,
        4,
        "A signature does not verify.",
        "Check which key signed and whether the bytes changed on the way.",
    ),
    ErrorCode.AUTH: _info(
        403,
        4,
        "No admission record for this auth_ref, or a read without a known token.",
        "Authorize the capability first (`veen cap authorize`), or present a read token.",
    ),
    ErrorCode.CAP: _info(
        403,
        4,
        "The capability does not allow this: chain, issuer, subject, stream, revocation, "
        "or a longer chain has superseded it.",
        "`veen cap show` prints what a token allows.",
    ),
    ErrorCode.RATE: _info(
        429, 4, "The token bucket of this capability is empty.", "Wait for Retry-After seconds."
    ),
    ErrorCode.DUP: _info(
        409,
        4,
        "This very message is already committed.",
        "Nothing is lost: fetch its receipt by leaf_hash and go on.",
    ),
    ErrorCode.SEQ: _info(
        409,
        4,
        "client_seq is not the next one, or prev_ack is beyond the head or goes back.",
        "The detail says next, ack and head; a client resynchronises from them.",
    ),
    ErrorCode.NOTFOUND: _info(
        404, 4, "No such label, sequence, object or route.", "Check the label and the range."
    ),
    ErrorCode.PRUNED: _info(
        410,
        4,
        "The payload bytes are gone by retention; receipts and proofs remain.",
        "Read from the first sequence that the detail names.",
    ),
    ErrorCode.BUSY: _info(
        503, 4, "The verification queue is full.", "Retry after the seconds given."
    ),
    ErrorCode.STORE: _info(
        503,
        4,
        "The disk refuses to take writes; reads go on.",
        "See the runbook disk-full, then `veen hub status`.",
    ),
    ErrorCode.INTERNAL: _info(
        500, 70, "The hub failed; nothing was committed.", "Report the request id."
    ),
    ErrorCode.PROOF: _info(
        409, 7, "A proof does not hold.", "`veen inspect` shows its parts; ask for a new one."
    ),
    ErrorCode.TRUST: _info(
        409,
        7,
        "The signing key is not one that is trusted here.",
        "Pin the hub's key yourself (--hub-pk, connection file or trust file).",
    ),
    ErrorCode.EQUIVOCATION: _info(
        409,
        7,
        "Two signed statements of one hub contradict each other.",
        "Keep both, report them with report_equivocation, stop trusting the hub.",
    ),
    ErrorCode.DAMAGE: _info(
        503,
        7,
        "Stored bytes are damaged or incomplete.",
        "Run `veen hub fsck`; see the runbook corruption.",
    ),
    ErrorCode.LOCKED: _info(
        503,
        6,
        "Another process owns this data directory.",
        "Stop it (`veen hub stop`) or use another directory.",
    ),
    ErrorCode.BEHIND: _info(
        503,
        6,
        "The data directory is behind the last heads that were signed: a restored backup?",
        "Never sign again from it with the same key: start with --fork.",
    ),
    ErrorCode.COPY: _info(
        503,
        6,
        "The data directory has entries but no heads file beside it: a copy?",
        "--take-over if nobody else signs with this key, else --fork.",
    ),
    ErrorCode.KEYSTORE: _info(
        403, 6, "The keystore cannot be opened.", "Check the passphrase and the file mode (0600)."
    ),
    ErrorCode.CONFIG: _info(
        400, 1, "The configuration is not valid.", "`veen config check` lists every problem."
    ),
    ErrorCode.UNREACHABLE: _info(
        503, 2, "The hub cannot be reached.", "Check the URL; `veen status` shows what runs."
    ),
    ErrorCode.PROTOCOL: _info(
        502,
        3,
        "What answered does not speak the protocol of a hub.",
        "Check that the URL is a hub's data plane and that no proxy changes its answers.",
    ),
    ErrorCode.POLICY: _info(403, 6, "A policy forbids this.", "The detail names the policy."),
}


class VeenError(Exception):
    """A refusal: a code that is contract, and a reason for people."""

    def __init__(self, code: ErrorCode, detail: str = "", *, retry_after_s: int | None = None):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else str(self.code)


class WireError(VeenError):
    """Bytes that are not the object they claim to be."""

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.FORMAT):
        super().__init__(code, detail)


class ProofError(VeenError):
    """A proof or a signature chain that does not hold."""

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.PROOF):
        super().__init__(code, detail)


class ScopeError(VeenError):
    """A key in good standing, on a label that its capability does not allow."""

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.CAP):
        super().__init__(code, detail)


class StoreError(VeenError):
    """The data directory cannot be used as asked."""

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.STORE):
        super().__init__(code, detail)


class TimedOutError(VeenError):
    """Nobody answered in the time allowed.

    To a program that is the same as unreachable, for the act may have happened; a person is told
    that it was late.
    """

    def __init__(self, detail: str):
        super().__init__(ErrorCode.UNREACHABLE, detail)


def unreachable(where: str, broken: Exception) -> VeenError:
    """What a connection that broke, or that nobody answered on, is to its user."""
    if isinstance(broken, TimeoutError):
        return TimedOutError(f"{where}: {str(broken) or 'no answer'}")
    return VeenError(ErrorCode.UNREACHABLE, f"{where}: {str(broken) or type(broken).__name__}")
