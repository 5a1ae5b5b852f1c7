"""The Spark engine behind one small interface; who runs it is composition [style 3].

`VEEN_QUERY_LAUNCHER` names a class without arguments that is a QueryLauncher; under `veen up` it
wakes the worker. Nothing depends on it being heard: the worker looks at the rows by itself too.
"""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string


class QueryLauncher(Protocol):
    """Whoever runs queries."""

    def wake(self) -> None:
        """Have waiting queries looked at now."""


class NoLauncher:
    """For a process without a worker: rows wait until one looks."""

    def wake(self) -> None:
        """Nobody to wake."""


def wake() -> None:
    """Tell the worker that something waits."""
    launcher: QueryLauncher = import_string(settings.VEEN_QUERY_LAUNCHER)()
    launcher.wake()
