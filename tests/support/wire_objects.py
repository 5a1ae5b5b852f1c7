"""Keys, messages and receipts of the shared vectors as objects, for any test that needs one."""

from __future__ import annotations

from typing import Final

from hub.authoring import Authored, author
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.types import AuthRef, ClientSeq, Label
from hub.wire.payload import PayloadHeader
from hub.wire.profile import Profile
from tests.support import vectors
from tests.support.vectors import unhex

_KEYS: Final = vectors.load("identifiers")["keys"]


def signing_key(name: str) -> SigningKey:
    """A named Ed25519 key of identifiers.json: `client`, `hub`, `hub2`, `issuer` ..."""
    return SigningKey(unhex(_KEYS[f"{name}_sign"]["seed"]))


def dh_secret(name: str) -> DhSecret:
    """A named X25519 key of identifiers.json."""
    return DhSecret(unhex(_KEYS[name]["sk"]))


def author_vector(letter: str) -> Authored:
    """Message A or B, authored again from its inputs."""
    inputs = vectors.message(letter)["inputs"]
    auth_ref = inputs["auth_ref"]
    return author(
        key=SigningKey(unhex(inputs["client_seed"])),
        profile=Profile(epoch_sec=0, pad_block=inputs["pad_block"]),
        label=Label(unhex(vectors.message(letter)["derived"]["label"])),
        client_seq=ClientSeq(inputs["client_seq"]),
        prev_ack=inputs["prev_ack"],
        auth_ref=None if auth_ref is None else AuthRef(unhex(auth_ref)),
        reader_pk=dh_secret("receiver_dh").public,
        header=PayloadHeader.decode(unhex(inputs["payload_hdr_cbor"])),
        body=unhex(inputs["body"]),
        ephemeral=unhex(inputs["hpke_ephemeral_sk"]),
    )
