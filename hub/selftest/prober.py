"""A client that authors whatever it is told, right or wrong, and always signs it well [SSOT 7].

A violation must be refused for its own sake: so every bad MSG here is otherwise flawless, signed
again after the change, in order and covered by a capability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hub.authoring import Authored, author
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.types import AuthRef, ClientSeq, Hash, Label
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt

SCHEMA: Final = Hash(h(b"veen.selftest.v1"))


@dataclass(slots=True, kw_only=True)
class Prober:
    """One key on one label; `send` is a hub's door and raises its refusals."""

    send: Callable[[bytes], bytes]
    key: SigningKey
    label: Label
    auth_ref: AuthRef | None
    reader: DhSecret
    profile: Profile = PRODUCT
    seq: int = 0
    head: int = 0  # the highest stream_seq this client has seen
    accepted: list[tuple[Msg, Receipt]] = field(default_factory=list)

    def author(self, body: bytes = b"", **changes: Any) -> Authored:  # noqa: ANN401 - whatever author() takes
        """The next message, or one with other fields than it ought to have."""
        fields: dict[str, Any] = {
            "key": self.key,
            "profile": self.profile,
            "label": self.label,
            "client_seq": ClientSeq(self.seq + 1),
            "prev_ack": self.head,
            "auth_ref": self.auth_ref,
            "reader_pk": self.reader.public,
            "header": PayloadHeader(schema=SCHEMA, cap_ref=self.auth_ref),
            "body": body,
        }
        return author(**(fields | changes))

    def draft(self, body: bytes = b"", **changes: Any) -> bytes:  # noqa: ANN401
        """The same as bytes."""
        if "auth_ref" in changes:
            changes.setdefault("header", PayloadHeader(schema=SCHEMA))
        return self.author(body, **changes).msg_bytes

    def take(self, data: bytes) -> Receipt:
        """Submit what must be accepted, and remember it."""
        receipt = Receipt.decode(self.send(data))
        self.accepted.append((Msg.decode(data), receipt))
        self.seq += 1
        self.head = receipt.stream_seq
        return receipt

    def resigned(self, **changes: Any) -> bytes:  # noqa: ANN401
        """The next message with fields changed behind the author's back, and signed again."""
        changed = replace(self.author(b"resigned").msg, **changes)
        return replace(changed, sig=self.key.sign(changed.signing_hash())).encode()

    def sealed(self, ciphertext: bytes) -> bytes:
        """The next message around a ciphertext of the caller's own making."""
        msg = Msg.sign(
            self.key,
            profile_id=self.profile.id,
            label=self.label,
            client_seq=ClientSeq(self.seq + 1),
            prev_ack=self.head,
            auth_ref=self.auth_ref,
            ciphertext=ciphertext,
        )
        return msg.encode()
