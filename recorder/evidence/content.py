"""What a disclosed secret shows of one message, and what it does not [docs/adr/0005-hpke].

The pack carries the HPKE shared secret of its message. Header and body open under it, both bound
by their tags to label, author and client_seq of this very MSG, so it opens no other message and
gives nothing of the stream's key away. It does not show that the secret came from the reader's
key: ChaCha20-Poly1305 does not commit to its key, so an author who prepared for it could publish
two secrets under which one ciphertext reads differently. The reader's own key gives one reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hub.authoring import Opened, open_disclosed
from hub.errors import ErrorCode, ProofError, WireError
from hub.verify import Report, Verdict
from hub.wire.msg import Msg
from recorder.event import SCHEMA, RecorderEvent
from recorder.projection import PROFILES


class Content(StrEnum):
    """What can be said of the message's content."""

    SEALED = "sealed"  # nothing was disclosed
    REFUSED = "refused"  # the disclosed secret does not open it
    OPENED = "opened"
    UNKNOWN_SCHEMA = "unknown_schema"  # opened, and no event of the recorder
    UNDECODABLE = "undecodable"  # opened, and not what its schema says
    CAP_MISMATCH = "cap_mismatch"  # cap_ref and auth_ref differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content as far as it could be read."""

    content: Content
    schema: bytes | None = None
    body: bytes | None = None
    event: RecorderEvent | None = None


SEALED: Final = Reading(content=Content.SEALED)


def read_content(report: Report, msg: Msg | None, opening: bytes | None) -> Reading:
    """Open the message where its secret is disclosed; a secret that does not fit is a failure."""
    if opening is None:
        return SEALED
    opened = report.check(
        Verdict.INTEGRITY, "disclosed secret opens the message", lambda: _open(msg, opening)
    )
    if opened is None:
        return Reading(content=Content.REFUSED)
    report.check(
        Verdict.BINDING, "cap_ref is the message's auth_ref", lambda: _check_cap_ref(opened)
    )
    content, event = _decode(opened)
    return Reading(content=content, schema=opened.header.schema, body=opened.body, event=event)


def _open(msg: Msg | None, opening: bytes) -> Opened:
    if msg is None:
        raise ProofError("the message itself is not readable")
    profile = PROFILES.get(msg.profile_id)
    if profile is None:
        raise WireError(f"profile_id {msg.profile_id.hex()}", ErrorCode.PROFILE)
    return open_disclosed(msg, profile=profile, shared_secret=opening)


def _check_cap_ref(opened: Opened) -> None:
    if opened.cap_mismatch:
        raise ProofError("the author named another capability inside than outside")


def _decode(opened: Opened) -> tuple[Content, RecorderEvent | None]:
    if opened.header.schema != SCHEMA:
        return Content.UNKNOWN_SCHEMA, None
    try:
        event = RecorderEvent.decode(opened.body)
    except WireError:
        return Content.UNDECODABLE, None
    return (Content.CAP_MISMATCH, None) if opened.cap_mismatch else (Content.OPENED, event)
