"""The text of a token or first password: it exists where it is shown, nowhere else [interfaces]."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "veen-"  # so that a scanner finds one that was leaked
PASSWORD_HASH: Final = "password_hash"  # noqa: S105 - the name of an act's argument
# Without 0, o, 1, l and i, which people confuse on paper.
_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"


def new_token() -> str:
    """256 bits, to be shown once."""
    return PREFIX + secrets.token_urlsafe(32)


def new_password() -> str:
    """Twenty characters in groups: about 99 bits, to be shown once."""
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def hash_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
