"""The one way in which the web asks for a fresher lake; who runs the ingest is composition.

`VEEN_LAKE_LAUNCHER` names a class without arguments that is a LakeLauncher; under `veen up` it asks
the worker, which owns the Spark driver [architecture, The lake].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from recorder.codes import RecordCode, RecordError

RETRY_AFTER_S: Final = 5


class LakeLauncher(Protocol):
    """Whoever can make the lake hold more."""

    def bring_up_to(self, streams: Mapping[str, int], timeout_s: float) -> None:
        """Return when the lake holds each stream up to its sequence, or raise lake_behind."""


class NoLauncher:
    """For a process that has no worker to ask: what the lake does not hold yet, it lacks."""

    def bring_up_to(self, streams: Mapping[str, int], timeout_s: float) -> None:  # noqa: ARG002
        """Refuse."""
        raise lake_behind()


def lake_behind() -> RecordError:
    """503, and when to come back."""
    message = "The events are recorded, but the lake does not hold all of them yet."
    return RecordError(RecordCode.LAKE_BEHIND, message, retry_after_s=RETRY_AFTER_S)


def bring_lake_up_to(streams: Mapping[str, int], timeout_s: float) -> None:
    """Return when the lake holds each stream up to its sequence, or raise lake_behind."""
    launcher: LakeLauncher = import_string(settings.VEEN_LAKE_LAUNCHER)()
    launcher.bring_up_to(streams, timeout_s)
