"""The text of a bearer token, which exists where it is shown and nowhere else [interfaces]."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "veen-"  # so that a scanner finds one that was leaked


def new_token() -> str:
    """256 bits, to be shown once."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
