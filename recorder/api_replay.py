"""GET /api/record/replay: NDJSON, written while it is read [SDR0 3.2.5]."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

from django.conf import settings
from django.http import StreamingHttpResponse
from rest_framework.request import Request

from recorder import replay_params
from recorder.api_view import ApiView
from recorder.auth import READERS, caller_of
from recorder.replay import open_replay

logger = logging.getLogger(__name__)


class ReplayEvents(ApiView):
    """Events of streams by range or window, in order, with receipts and, on request, proofs."""

    roles = READERS

    def get(self, request: Request) -> StreamingHttpResponse:
        """Refusals come before the first byte; a fault later cuts the answer before its end."""
        asked = replay_params.parse(dict(request.query_params.lists()))
        replay = open_replay(caller_of(request), asked, lake=settings.VEEN_LAKE_DIR)
        pieces = replay.pieces()
        first = next(pieces)
        response = StreamingHttpResponse(
            _logged(itertools.chain([first], pieces)), content_type="application/x-ndjson"
        )
        response["X-Accel-Buffering"] = "no"
        return response


def _logged(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except Exception:
        # The server closes the connection without an end, which every client sees.
        logger.exception("replay.cut")
        raise
