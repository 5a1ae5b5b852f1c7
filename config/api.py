"""How the API reads and writes JSON: strictly, and nothing else than JSON [interfaces].

A body is read by the one reader of canonical JSON, so duplicate keys, NaN, lone surrogates and
deep nesting are refused here as they are at the gateway and in a descriptor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from config.api_settings import BODY_BYTES_MAX
from hub import canonical_json
from hub.canonical_json import JsonError
from recorder.codes import Detail, RecordCode, RecordError


class StrictJsonParser(BaseParser):
    """application/json and no other type, so that no form of a foreign page is ever read."""

    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:  # noqa: ANN401 - any JSON value; the stubs know only objects
        """The value of the body, or invalid_json with the place of the flaw."""
        body = stream.read(BODY_BYTES_MAX + 1)
        if len(body) > BODY_BYTES_MAX:
            message = f"The body is larger than {BODY_BYTES_MAX} bytes."
            raise RecordError(RecordCode.INVALID_PARAMETER, message)
        try:
            return canonical_json.parse(body)
        except JsonError as flaw:
            details = [Detail(pointer=flaw.pointer, reason=flaw.reason)]
            message = "The body is not JSON that can be taken."
            raise RecordError(RecordCode.INVALID_JSON, message, details=details) from flaw


class JsonAlways(BaseContentNegotiation):
    """Whatever a client says it accepts, it gets JSON; the API has nothing else."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        content_type = request.content_type.partition(";")[0].strip().lower()
        return next((one for one in parsers if one.media_type == content_type), None)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002 - the framework's signature
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, str(first.media_type)
