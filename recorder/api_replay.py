"""GET /api/record/replay: NDJSON, written while it is read [SDR0 3.2.5]."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator

from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.request import Request

from hub.errors import ErrorCode, ProofError, VeenError
from hub.models import Finding
from hub.services import note_finding
from recorder import api_docs, replay_params, services
from recorder.api_view import ApiView
from recorder.auth import ADMIN, READERS, Caller, caller_of
from recorder.event import format_time
from recorder.models import AuthoredEvent
from recorder.replay import open_replay
from recorder.replay_params import ReplayRange
from recorder.streams import CHANGES

logger = logging.getLogger(__name__)


class ReplayEvents(ApiView):
    """Events of streams by range or window, in order, with receipts and, on request, proofs."""

    roles = READERS
    operations = {"GET": api_docs.REPLAY}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> StreamingHttpResponse:
        """Refusals come before the first byte; a fault later cuts the answer before its end."""
        asked = replay_params.parse(dict(request.query_params.lists()))
        caller = caller_of(request)
        with _damage_noted(asked):
            replay = open_replay(caller, asked, lake=settings.VEEN_LAKE_DIR)
        if caller.token.role == ADMIN:
            _note_read(caller, asked, request.META["VEEN_REQUEST_ID"])
        pieces = replay.pieces()
        with _damage_noted(asked):
            first = next(pieces)
        response = StreamingHttpResponse(
            _logged(itertools.chain([first], pieces), asked), content_type="application/x-ndjson"
        )
        response["X-Accel-Buffering"] = "no"
        return response


def _note_read(caller: Caller, asked: ReplayRange, request_id: str) -> None:
    """Who administers the recorder is recorded when reading it, too [assurance 2.5]."""
    services.record_event(
        key=f"replay/{request_id}",
        identity=AuthoredEvent.Identity.RECORDER,
        stream=CHANGES,
        event_type="stream.replayed",
        subject_id=caller.actor,
        payload={
            "streams": list(asked.streams),
            "from_seq": asked.from_seq,
            "to_seq": asked.to_seq,
            "start_time": None if asked.start_ms is None else format_time(asked.start_ms),
            "end_time": None if asked.end_ms is None else format_time(asked.end_ms),
            "with_proofs": asked.with_proofs,
        },
    )


def _logged(pieces: Iterator[bytes], asked: ReplayRange) -> Iterator[bytes]:
    try:
        with _damage_noted(asked):
            yield from pieces
    except Exception:
        # The server closes the connection without an end, which every client sees.
        logger.exception("replay.cut")
        raise


@contextlib.contextmanager
def _damage_noted(asked: ReplayRange) -> Iterator[None]:
    """Evidence that fails is a finding, whoever stumbled upon it."""
    try:
        yield
    except VeenError as flaw:
        if flaw.code is ErrorCode.DAMAGE or isinstance(flaw, ProofError):
            note_finding(
                str(flaw.code),
                f"replay of {', '.join(asked.streams)}",
                flaw.detail,
                severity=Finding.Severity.CRITICAL,
                now=timezone.now(),
            )
        raise
