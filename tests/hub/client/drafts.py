"""Drafts that every client test can send."""

from __future__ import annotations

from hub.client import Draft
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.types import Hash, Label
from hub.wire.payload import PayloadHeader

LABEL = Label(b"\x11" * 32)
READER = DhSecret(b"\x22" * 32)
SCHEMA = Hash(h(b"test.note.v1"))


def draft(body: bytes = b"hello", *, label: Label = LABEL, **more: object) -> Draft:
    """A note sealed to READER."""
    attachments = more.get("attachments", ())
    assert isinstance(attachments, tuple)
    return Draft(
        label=label,
        reader_pk=READER.public,
        header=PayloadHeader(schema=SCHEMA),
        body=body,
        attachments=attachments,
    )
