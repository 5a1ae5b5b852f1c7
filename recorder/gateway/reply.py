"""The answer to one request, put together as receipts and refusals come in [interfaces, Recorder].

Results come from the desk's thread and the lane's, the end of patience from the event loop's;
whoever brings the last one renders the answer, and it is given once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Final

from hub.errors import ErrorCode, VeenError
from hub.server.http import Response
from recorder.codes import RecordCode, RecordError
from recorder.recorded import Recorded

JSON: Final = "application/json"
RETRY_AFTER_S: Final = 1
_BUSY: Final = frozenset({429, 503})

Result = tuple[int, dict[str, object]]  # the status it has alone, and its document
Done = Callable[[Response], None]


def error_result(refusal: RecordError, *, is_pending: bool = False) -> Result:
    """A refusal as the result of one event."""
    document = refusal.to_json()
    if is_pending:
        document["pending"] = True
    return refusal.status, document


def error_response(refusal: RecordError, request_id: str, *, is_pending: bool = False) -> Response:
    """A refusal as the whole answer."""
    status, document = error_result(refusal, is_pending=is_pending)
    return _render(status, document, request_id, refusal.retry_after_s)


def _render(
    status: int, document: dict[str, object], request_id: str, retry_after_s: int | None = None
) -> Response:
    headers: list[tuple[str, str]] = []
    if status in _BUSY:
        headers.append(("Retry-After", str(retry_after_s or RETRY_AFTER_S)))
    if status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if status >= 400:
        document = {**document, "request_id": request_id}
    return Response(status, json.dumps(document).encode(), JSON, tuple(headers))


def refusal_of(error: VeenError) -> RecordError:
    """What a refusal of hub, outbox or disk means to a client of the gateway."""
    if isinstance(error, RecordError):
        return error
    codes = {
        ErrorCode.SIZE: RecordCode.EVENT_TOO_LARGE,
        ErrorCode.CAP: RecordCode.FORBIDDEN_STREAM,
        ErrorCode.RATE: RecordCode.RATE_LIMITED,
    }
    code = codes.get(error.code, RecordCode.HUB_UNAVAILABLE)
    # The detail may speak of files and addresses of this machine; the code is enough outside.
    return RecordError(code, f"the event was refused ({error.code})")


PENDING: Final = RecordError(
    RecordCode.HUB_UNAVAILABLE, "no receipt yet; the event is kept and will be recorded"
)


class Reply:
    """One result for each event of a request."""

    __slots__ = ("_done", "_given", "_guard", "_is_batch", "_open", "_request_id", "_results")

    def __init__(self, request_id: str, done: Done) -> None:
        self._request_id = request_id
        self._done = done
        self._guard = threading.Lock()
        self._given = False
        self._is_batch = False
        self._results: list[Result | None] = []
        self._open = 0

    def expect(self, count: int, *, is_batch: bool) -> bool:
        """So many results will come; False when the client has been answered already."""
        with self._guard:
            if self._given:
                return False
            self._is_batch = is_batch
            self._results = [None] * count
            self._open = count
            response = self._finished()
        self._give(response)
        return True

    def set(self, index: int, result: Result) -> None:
        """The result of one event; a second one, after patience ended, changes nothing."""
        with self._guard:
            if self._given or self._results[index] is not None:
                return
            self._results[index] = result
            self._open -= 1
            response = self._finished()
        self._give(response)

    def recorded(self, index: int, found: Recorded, *, is_new: bool) -> None:
        """An event that is in the log."""
        self.set(index, (201 if is_new else 200, found.to_json()))

    def refuse(self, refusal: RecordError) -> None:
        """Refuse the whole request."""
        with self._guard:
            if self._given:
                return
            self._given = True
        self._done(error_response(refusal, self._request_id))

    def end_patience(self) -> None:
        """Answer now: what has no result yet is pending."""
        with self._guard:
            if self._given:
                return
            if not self._results:  # Not even read: nothing of it is kept.
                refusal = RecordError(RecordCode.HUB_UNAVAILABLE, "the gateway is too busy")
                response: Response | None = error_response(refusal, self._request_id)
                self._given = True
            else:
                pending = error_result(PENDING, is_pending=True)
                self._results = [pending if one is None else one for one in self._results]
                self._open = 0
                response = self._finished()
        self._give(response)

    def _finished(self) -> Response | None:
        if self._open or self._given:
            return None
        self._given = True
        results = [one for one in self._results if one is not None]
        if self._is_batch:
            return Response(200, _batch(results), JSON)
        ((status, document),) = results
        return _render(status, document, self._request_id)

    def _give(self, response: Response | None) -> None:
        if response is not None:
            self._done(response)


def _batch(results: Sequence[Result]) -> bytes:
    return json.dumps({"results": [document for _, document in results]}).encode()
