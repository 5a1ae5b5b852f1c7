"""The author: executes and records administrative acts and events, publishes manifests.

It alone unlocks the keystore, and it alone signs for the product's own identities. What it is asked
for stands in SQL; a byte on its socket wakes it, and without one it looks twice a second
[architecture: processes of `veen up`].
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from config.log_lines import JsonLines
from config.up_state import StateDir
from hub.errors import VeenError

logger = logging.getLogger(__name__)


def main() -> int:
    """Run until SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django  # noqa: PLC0415 - nothing below can be imported before its setup

    JsonLines.component = "author"
    django.setup()
    from django.conf import settings  # noqa: PLC0415

    from config.author_keys import read_realm  # noqa: PLC0415
    from config.author_loop import Author  # noqa: PLC0415
    from recorder.checkpoints import Schedule  # noqa: PLC0415
    from recorder.wake import Listener  # noqa: PLC0415

    state: StateDir = settings.STATE
    schedule = Schedule(
        interval_s=settings.VEEN.checkpoint_interval_s, messages=settings.VEEN.checkpoint_messages
    )
    try:
        author = Author(state, read_realm(state), schedule)
        listener = Listener(state.author_socket)
    except (VeenError, OSError) as refusal:
        logger.error("author.not_started", extra={"reason": str(refusal)})  # noqa: TRY400
        return 1
    try:
        author.run(stop, listener)
    finally:
        listener.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
