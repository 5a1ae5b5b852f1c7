"""The worker: Celery with its schedules in one process that owns the Spark driver [spark, How].

Threads, not processes: a session must not be forked, and several queries share it. The private
broker is a child of this process; both may be killed at any moment.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final

from config.log_lines import JsonLines
from config.up_state import StateDir, write_json
from hub.errors import VeenError

if TYPE_CHECKING:
    from config.broker import BrokerServer

THREADS: Final = 6

logger = logging.getLogger(__name__)


def main() -> int:
    """Run until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django  # noqa: PLC0415 - nothing below can be imported before its setup

    JsonLines.component = "worker"
    django.setup()
    from django.conf import settings  # noqa: PLC0415

    from config.lake_jobs import resume_jobs  # noqa: PLC0415
    from config.spark_driver import driver  # noqa: PLC0415

    state: StateDir = settings.STATE
    try:
        server = _start_broker(state)
    except VeenError as refusal:
        logger.error("worker.not_started", extra={"reason": str(refusal)})  # noqa: TRY400
        return 1
    try:
        resume_jobs()
        driver().warm()
        return _run_celery(state)
    finally:
        state.ready("worker").unlink(missing_ok=True)
        driver().close()
        if server is not None:
            server.close()


def _start_broker(state: StateDir) -> BrokerServer | None:
    from django.conf import settings  # noqa: PLC0415

    from config.broker import BrokerServer, choose_broker  # noqa: PLC0415

    broker = choose_broker(settings.VEEN.redis_url, state.run, os.environ)
    logger.info("broker.chosen", extra={"kind": broker.kind.value})
    return None if broker.server is None else BrokerServer(broker.server, state.run)


def _run_celery(state: StateDir) -> int:
    from celery.beat import EmbeddedService, Scheduler  # noqa: PLC0415
    from celery.platforms import SecurityWarning  # noqa: PLC0415
    from celery.signals import setup_logging, worker_ready, worker_shutting_down  # noqa: PLC0415

    from config.celery import app  # noqa: PLC0415

    # A thread: Celery would fork one, and a process with a JVM must not be forked.
    # In memory: the default one would write its file into whatever directory we stand in.
    beat = EmbeddedService(app, max_interval=1, thread=True, scheduler_cls=Scheduler)

    def on_ready(**_: Any) -> None:  # noqa: ANN401 - what Celery sends with a signal
        beat.start()
        write_json(state.ready("worker"), {"pid": os.getpid()})
        logger.info("worker.ready")

    worker_ready.connect(on_ready, weak=False)
    worker_shutting_down.connect(_stop_jobs, weak=False)
    setup_logging.connect(_keep_logging, weak=False)
    # It warns of root and pickle; tasks here are JSON, and containers often have no other user.
    warnings.simplefilter("ignore", SecurityWarning)
    worker = app.Worker(
        pool="threads",
        concurrency=THREADS,
        hostname="worker@veen",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    if beat.is_alive():
        beat.stop()
    return int(worker.exitcode or 0)


def _keep_logging(**_: Any) -> None:  # noqa: ANN401 - what Celery sends with a signal
    """Lines go where Django's settings send them; Celery's own only when something is wrong."""
    logging.getLogger("celery").setLevel(logging.WARNING)


def _stop_jobs(**_: Any) -> None:  # noqa: ANN401 - what Celery sends with a signal
    """Whoever waits for Spark is told to stop; the work is found again by the next start."""
    from config.spark_driver import driver  # noqa: PLC0415

    threading.Thread(target=driver().cancel_jobs, name="stop", daemon=True).start()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # Threads that wait for a JVM must not keep a process that was asked to end.
