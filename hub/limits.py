"""Every size, count and skew bound of the hub in one value [SSOT 3.5; spec-1 19]."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults of spec-1 section 19; `/profile` publishes them."""

    msg_bytes_max: int = 1_048_576
    body_bytes_max: int = 1_048_320
    hdr_bytes_max: int = 16_384
    proof_len_max: int = 64
    cap_chain_max: int = 8
    cap_streams_max: int = 1024
    cap_bytes_max: int = 65_536
    attachments_per_msg_max: int = 1024
    attachment_bytes_max: int = 1_048_320
    clock_skew_epochs: int = 1
    batch_items_max: int = 1024
    batch_bytes_max: int = 32 * 1024 * 1024
    stream_limit_default: int = 1000
    stream_limit_max: int = 10_000
    queue_max: int = 4096  # messages between the socket and the log, over all connections
    commit_entries_max: int = 100  # group commit: so many entries for one fdatasync
    refusals_per_s: int = 100  # per address and worker: messages whose signature work was wasted
    refusals_burst: int = 1000
    core_attachment_quota_bytes: int = 1024 * 1024 * 1024

    def published(self) -> dict[str, int]:
        """The limits as `/profile` shows them."""
        return asdict(self)


DEFAULT = Limits()
