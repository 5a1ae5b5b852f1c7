"""One of our messages opened by an HPKE implementation that is not ours [RFC 9180; SSOT 4.2]."""

from __future__ import annotations

from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt

from hub.crypto.hpke import DhSecret
from hub.wire import ciphertext
from hub.wire.msg import Msg
from hub.wire.profile import Profile


def open_with_pyhpke(msg: Msg, profile: Profile, reader: DhSecret) -> bytes:
    """The body, with pyhpke in the place of hub.crypto; raises when it does not open."""
    import pyhpke  # noqa: PLC0415 - the data plane runs without it

    suite = pyhpke.CipherSuite.new(
        pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256,
        pyhpke.KDFId.HKDF_SHA256,
        pyhpke.AEADId.CHACHA20_POLY1305,
    )
    parts = ciphertext.split(msg.ciphertext, profile.pad_block)
    secret = suite.kem.deserialize_private_key(reader.secret)
    context = suite.create_recipient_context(parts.enc, secret)
    context.open(parts.hdr_ct, msg.aad())
    key = context.export(b"veen/body-k", 32)
    return crypto_aead_xchacha20poly1305_ietf_decrypt(
        parts.body_ct, msg.aad(), msg.body_nonce(), key
    )
