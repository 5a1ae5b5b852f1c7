"""How web and API wake the worker for queries: a task that says only "look" [architecture]."""

from __future__ import annotations

import logging

from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


class CeleryQueries:
    """The QueryLauncher of `veen up`."""

    def wake(self) -> None:
        """Have waiting queries looked at; a broker that is away only costs a moment."""
        from config.celery import app  # noqa: PLC0415 - Celery costs a third of a second

        try:
            app.send_task("config.tasks.run_queries", expires=10, retry=False)
        except (OperationalError, OSError) as refusal:
            logger.warning("query.not_woken", extra={"reason": str(refusal)})
