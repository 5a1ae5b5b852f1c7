"""A hub without sockets whose clock stands still until it is moved [SSOT 8.1; wire, Clock]."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from hub.admission.form import check_form
from hub.errors import VeenError
from hub.selftest.live import HOURLY
from hub.server.config import HubConfig
from hub.server.core import Submission, open_hub
from hub.storage.disk import Disk
from hub.types import PublicKey
from hub.wire.captoken import CapToken
from hub.wire.profile import DEFAULT_PROFILES

T0: Final = 1_700_000_000


class _UnsyncedDisk(Disk):
    """Skips what only a power cut would show: this hub is about decisions, not durability."""

    __slots__ = ()

    def fdatasync(self, fd: int) -> None:
        """Leave it to the kernel."""

    def sync_dir(self, path: Path) -> None:
        """Leave it to the kernel."""


class StillHub:
    """Judges a MSG in the order in which worker and writer do."""

    def __init__(
        self, data_dir: Path, *, routing_key: bytes, issuer: PublicKey, now: int = T0
    ) -> None:
        self.now = now
        self.config = HubConfig(
            data_dir=data_dir,
            routing_key=routing_key,
            trusted_issuers=frozenset({issuer}),
            profiles=(*DEFAULT_PROFILES, HOURLY),
        )
        self.core = open_hub(self.config, _UnsyncedDisk(), wall=self._clock, boot=self._clock)

    def _clock(self) -> float:
        return float(self.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.core.close()

    def submit(self, data: bytes) -> bytes:
        """The RECEIPT, or the refusal raised."""
        outcome = self.submit_batch([data])[0]
        if isinstance(outcome, VeenError):
            raise outcome
        return outcome

    def submit_batch(self, batch: list[bytes]) -> list[bytes | VeenError]:
        """Many in one commit; item i answers MSG i."""
        answers: dict[int, bytes | VeenError] = {}
        good: list[tuple[int, Submission]] = []
        for place, data in enumerate(batch):
            try:
                msg = check_form(data, self.config.profile_map(), self.config.limits)
                msg.verify()
                good.append((place, Submission(data, msg.leaf_hash())))
            except VeenError as refusal:
                answers[place] = refusal
        outcomes = self.core.submit([submission for _, submission in good])
        answers.update(zip((place for place, _ in good), outcomes, strict=True))
        return [answers[place] for place in range(len(batch))]

    def authorize(self, token: CapToken) -> int:
        """Admit a capability; its expires_at."""
        expires_at = self.core.authorize(token.encode())["expires_at"]
        assert isinstance(expires_at, int)
        return expires_at
