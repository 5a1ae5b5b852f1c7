"""payload_hdr: the sealed header that types a body [SSOT 4.5]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from hub.errors import WireError
from hub.types import AuthRef, Hash, LeafHash, UnixSeconds
from hub.wire import cbor

_SCHEMA: Final = 1
_PARENT_ID: Final = 2
_ATT_ROOT: Final = 3
_CAP_REF: Final = 4
_EXPIRES_AT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadHeader:
    """Absent fields are None here and omitted on the wire, never null."""

    schema: Hash
    parent_id: LeafHash | None = None
    att_root: Hash | None = None
    cap_ref: AuthRef | None = None
    expires_at: UnixSeconds | None = None

    def encode(self) -> bytes:
        """Canonical CBOR map with ascending keys."""
        fields: dict[int, cbor.Value] = {
            _SCHEMA: self.schema,
            _PARENT_ID: self.parent_id,
            _ATT_ROOT: self.att_root,
            _CAP_REF: self.cap_ref,
            _EXPIRES_AT: self.expires_at,
        }
        return cbor.encode({key: value for key, value in fields.items() if value is not None})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a payload_hdr or raise E.FORMAT on unknown, repeated or disordered keys."""
        reader = cbor.Reader(data)
        pairs = reader.map_length(minimum=1, maximum=5)
        hashes: dict[int, bytes] = {_SCHEMA: reader.key(_SCHEMA).bstr(32)}
        expires_at = None
        last = _SCHEMA
        for _ in range(pairs - 1):
            key = reader.uint(maximum=_EXPIRES_AT)
            if key <= last:
                raise WireError(f"payload_hdr key {key} after {last}")
            if key == _EXPIRES_AT:
                expires_at = UnixSeconds(reader.uint())
            else:
                hashes[key] = reader.bstr(32)
            last = key
        reader.end()
        parent_id, att_root, cap_ref = map(hashes.get, (_PARENT_ID, _ATT_ROOT, _CAP_REF))
        return cls(
            schema=Hash(hashes[_SCHEMA]),
            parent_id=None if parent_id is None else LeafHash(parent_id),
            att_root=None if att_root is None else Hash(att_root),
            cap_ref=None if cap_ref is None else AuthRef(cap_ref),
            expires_at=expires_at,
        )
