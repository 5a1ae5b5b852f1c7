"""Admission steps 1 and 2: bounds and structure, before any signature work [SSOT 8.1]."""

from __future__ import annotations

from collections.abc import Mapping

from hub.errors import ErrorCode, WireError
from hub.limits import DEFAULT, Limits
from hub.types import ProfileId
from hub.wire import ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import Profile


def check_form(
    data: bytes,
    profiles: Mapping[ProfileId, Profile],
    limits: Limits = DEFAULT,
    read: Msg | None = None,
) -> Msg:
    """The MSG, or the first refusal in the order of the admission table.

    `read` is the MSG of these bytes where it was decoded before, as a sequence was cut.

    (1) size E.SIZE; (2) canonical CBOR, field sizes, version E.FORMAT; (3) profile E.PROFILE;
    (4) ciphertext framing E.FORMAT or E.SIZE; (5) ct_hash E.FORMAT.
    """
    if len(data) > limits.msg_bytes_max:  # (1)
        raise WireError(f"{len(data)} bytes are over {limits.msg_bytes_max}", ErrorCode.SIZE)
    msg = read or Msg.decode(data)  # (2)
    profile = profiles.get(msg.profile_id)
    if profile is None:  # (3)
        raise WireError(f"profile_id {msg.profile_id.hex()}", ErrorCode.PROFILE)
    ciphertext.check_framing(msg.ciphertext, profile.pad_block, limits)  # (4)
    msg.check_ct_hash()  # (5)
    return msg
