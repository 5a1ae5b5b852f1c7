"""What every route of the API has in common [interfaces]."""

from __future__ import annotations

import base64
from typing import Final

from rest_framework.request import Request
from rest_framework.views import APIView

from recorder.codes import RecordCode, RecordError

METHODS: Final = ["get", "post"]


class ApiView(APIView):
    """A route; `roles` names who may use it, and without it nobody may."""

    http_method_names = METHODS
    roles: frozenset[str] = frozenset()


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
