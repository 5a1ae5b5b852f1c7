"""What every route of the API has in common [interfaces]."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar, Final

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from recorder.api_operations import Operation
from recorder.codes import RecordCode, RecordError

METHODS: Final = ["get", "post"]
CHUNKED_BYTES_MAX: Final = 1024 * 1024  # the parser refuses what is longer


class ApiView(APIView):
    """A route; `roles` names who may use it, and without it nobody may."""

    http_method_names = METHODS
    roles: frozenset[str] = frozenset()
    operations: ClassVar[Mapping[str, Operation]] = {}  # by method: what OpenAPI says of it
    reads_body: ClassVar[bool] = True

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:  # noqa: ANN401
        """Bring a body without a length within sight of Django, which would take it for none."""
        source = request.META.get("wsgi.input")
        is_chunked = self.reads_body and not request.META.get("CONTENT_LENGTH")
        if is_chunked and source is not None and request.META.get("wsgi.input_terminated"):
            body = source.read(CHUNKED_BYTES_MAX + 1)
            request.META["CONTENT_LENGTH"] = str(len(body))
            request._stream = BytesIO(body)  # noqa: SLF001
        return super().initialize_request(request, *args, **kwargs)


def check_parameters(request: Request, *allowed: str) -> None:
    """Refuse a query parameter the route does not know: a misspelt filter would widen an answer."""
    for name in request.query_params:
        if name not in allowed:
            shown = ", ".join(allowed) or "none"
            message = f"Unknown parameter {name[:64]!r}; this route takes {shown}."
            raise RecordError(RecordCode.INVALID_PARAMETER, message)
        if len(request.query_params.getlist(name)) > 1:
            message = f"{name} is given more than once."
            raise RecordError(RecordCode.INVALID_PARAMETER, message)


def b64(data: bytes) -> str:
    """Byte strings in JSON are standard base64 with padding."""
    return base64.b64encode(data).decode()
