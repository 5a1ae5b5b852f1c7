"""What one data plane is told at start; nothing here changes while it runs [SSOT 3.5]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hub.limits import DEFAULT, Limits
from hub.storage.segments import SEGMENT_BYTES
from hub.types import ProfileId, PublicKey
from hub.wire.profile import DEFAULT_PROFILES, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """One hub: its directory, its doors and its rules."""

    data_dir: Path
    port: int = 0
    bind: str = "127.0.0.1"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    open_admission: bool = False
    open_reads: bool = False
    trusted_issuers: frozenset[PublicKey] = frozenset()
    routing_key: bytes | None = None
    heads_file: Path | None = None
    take_over: bool = False
    fork: bool = False
    workers: int = 2
    checkpoint_interval_s: int = 300
    checkpoint_messages: int = 10_000
    segment_bytes: int = SEGMENT_BYTES
    retention_interval_s: int = 86_400  # between two rounds of the retention policies
    log_submits: bool = True
    profiles: tuple[Profile, ...] = DEFAULT_PROFILES
    limits: Limits = field(default=DEFAULT)

    def profile_map(self) -> Mapping[ProfileId, Profile]:
        """The profiles this hub takes, by id."""
        return {profile.id: profile for profile in self.profiles}
