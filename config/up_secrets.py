"""What the first `up` creates before any process runs, each step whole or not at all.

Every step looks for its own result and makes it when it is missing, so that a run killed anywhere
is completed by the next one [architecture: processes of `veen up`].
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from config.up_state import StateDir, make_directories, write_atomic, write_json
from hub import keystore
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey

ISSUER: Final = "issuer"
RECORDER_ADMIN: Final = "recorder-admin"
RECORDER_ADMIN_DH: Final = "recorder-admin-dh"  # X25519: every stream secret is wrapped to it
ROUTING_KEY: Final = "routing.key"
KEYSTORE: Final = "keystore.enc"
PASSPHRASE: Final = "passphrase"  # noqa: S105 - the name of a file
TRUST_KEY: Final = "trust.key"
DJANGO_KEY: Final = "django.key"
ENGINE_KEYS: Final = "engine.keys"
GATEWAY_KEYS: Final = "gateway.keys"
READERS_KEYS: Final = "readers.keys"
SERVICES: Final = ("recorder-service", "query-engine")  # who records for the product itself
ADMIN_TOKEN: Final = "admin.token"  # noqa: S105 - the name of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class RealmKeys:
    """Public halves of the realm's keys; the secret halves stay in their files."""

    issuer_pk: PublicKey
    recorder_admin_pk: PublicKey
    trust_pk: PublicKey


def make_routing_key(state: StateDir) -> None:
    _make_key_file(state, ROUTING_KEY)


def make_trust_key(state: StateDir) -> None:
    _make_key_file(state, TRUST_KEY)


def make_passphrase(state: StateDir) -> None:
    path = state.secret(PASSPHRASE)
    if path.exists():
        return
    if state.secret(KEYSTORE).exists():
        # A new passphrase would not open the old keystore, and would hide that one was lost.
        raise VeenError(
            ErrorCode.KEYSTORE, f"{path} is missing, and {KEYSTORE} opens with nothing else"
        )
    write_atomic(path, secrets.token_urlsafe(32).encode() + b"\n")


def make_keystore(state: StateDir) -> None:
    """Issuer and recorder-admin keys, sealed with the passphrase of the step before."""
    path = state.secret(KEYSTORE)
    if not path.exists():
        keys = {name: SigningKey.generate().seed for name in (ISSUER, RECORDER_ADMIN)}
        keys[RECORDER_ADMIN_DH] = DhSecret.generate().secret
        keystore.write(path, keys, read_passphrase(state))


def make_engine_keys(state: StateDir) -> None:
    """The keys of the identities that record administrative acts and queries."""
    path = state.secret(ENGINE_KEYS)
    if not path.exists():
        keys = {name: SigningKey.generate().seed.hex() for name in SERVICES}
        write_json(path, {"ver": 1, "keys": keys})


def make_django_key(state: StateDir) -> None:
    _make_token(state, DJANGO_KEY)


def make_admin_token(state: StateDir) -> None:
    _make_token(state, ADMIN_TOKEN)


STEPS: Final[tuple[Callable[[StateDir], None], ...]] = (
    make_directories,
    make_routing_key,
    make_passphrase,
    make_keystore,
    make_engine_keys,
    make_trust_key,
    make_django_key,
    make_admin_token,
)


def complete_first_run(state: StateDir) -> None:
    """Make whatever is still missing of a new state directory."""
    for step in STEPS:
        step(state)


def read_passphrase(state: StateDir) -> bytes:
    return keystore.read_private(state.secret(PASSPHRASE)).strip()


def realm_keys(state: StateDir) -> RealmKeys:
    """Open the keystore once, which also proves that passphrase and file belong together."""
    sealed = open_keystore(state)
    return RealmKeys(
        issuer_pk=SigningKey(sealed[ISSUER]).public,
        recorder_admin_pk=SigningKey(sealed[RECORDER_ADMIN]).public,
        trust_pk=trust_signing_key(state).public,
    )


def open_keystore(state: StateDir) -> dict[str, bytes]:
    """The realm's secrets by name."""
    sealed = keystore.read(state.secret(KEYSTORE), read_passphrase(state))
    missing = {ISSUER, RECORDER_ADMIN, RECORDER_ADMIN_DH} - sealed.keys()
    if missing:
        raise VeenError(ErrorCode.KEYSTORE, f"{KEYSTORE} lacks {', '.join(sorted(missing))}")
    return sealed


def engine_keys(state: StateDir) -> dict[str, SigningKey]:
    """The keys of the product's own identities."""
    path = state.secret(ENGINE_KEYS)
    try:
        found = json.loads(keystore.read_private(path))["keys"]
        return {
            name: SigningKey(keystore.parse_key(found[name].encode(), path)) for name in SERVICES
        }
    except (ValueError, KeyError, TypeError, AttributeError) as flaw:
        raise VeenError(ErrorCode.KEYSTORE, f"{path} does not hold the engine's keys") from flaw


def trust_signing_key(state: StateDir) -> SigningKey:
    return SigningKey(keystore.read_key_file(state.secret(TRUST_KEY)))


def _make_key_file(state: StateDir, name: str) -> None:
    path = state.secret(name)
    if not path.exists():
        keystore.write_key_file(path, secrets.token_bytes(keystore.KEY_FILE_BYTES))


def _make_token(state: StateDir, name: str) -> None:
    path = state.secret(name)
    if not path.exists():
        write_atomic(path, secrets.token_urlsafe(32).encode() + b"\n")
