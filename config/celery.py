"""The Celery application: JSON tasks that take ids, acknowledged when they are done [style 4].

Nothing depends on a task being delivered once, or at all: each looks at what is to be done, takes a
lock, does it and may be repeated. Schedules and rows find what was lost with a broker.
"""

from __future__ import annotations

import os
from typing import Any, Final

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

QUEUE: Final = "veen"
LAKE_TICK_S: Final = 2.0
JOBS_TICK_S: Final = 1.0
TASK_MODULES: Final = ("config.tasks",)
SCHEDULE: Final[dict[str, dict[str, Any]]] = {
    # A tick that waited longer than the next one is of no use any more.
    "lake-tick": {
        "task": "config.tasks.lake_tick",
        "schedule": LAKE_TICK_S,
        "options": {"expires": LAKE_TICK_S},
    },
    "queries": {
        "task": "config.tasks.run_queries",
        "schedule": JOBS_TICK_S,
        "options": {"expires": JOBS_TICK_S},
    },
    "lake-jobs": {
        "task": "config.tasks.run_lake_jobs",
        "schedule": JOBS_TICK_S,
        "options": {"expires": JOBS_TICK_S},
    },
}


def make_app() -> Celery:
    """An application on the broker that the settings lead to."""
    from django.conf import settings  # noqa: PLC0415 - settings are read when first used

    from config.broker import choose_broker, make_folders  # noqa: PLC0415

    broker = choose_broker(settings.VEEN.redis_url, settings.STATE.run, os.environ)
    make_folders(broker)
    app = Celery("veen", include=list(TASK_MODULES))
    app.conf.update(
        broker_url=broker.url,
        broker_transport_options=dict(broker.options),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_default_queue=QUEUE,
        task_serializer="json",
        accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        enable_utc=True,
        timezone="UTC",
        beat_schedule=SCHEDULE,
        beat_scheduler="celery.beat:Scheduler",  # in memory: every schedule stands above
    )
    return app


app = make_app()
