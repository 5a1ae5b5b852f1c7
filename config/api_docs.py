"""GET /api/schema and the try-it page /api/docs, which works offline [interfaces; experience 2.1].

The page keeps its script in a file of its own, so it needs no exception from the policy.
"""

from __future__ import annotations

from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response


class SchemaView(SpectacularAPIView):
    """JSON only, open to everybody: it says nothing about anybody."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    renderer_classes = [OpenApiJsonRenderer2]  # noqa: RUF012 - as the framework declares it

    @extend_schema(exclude=True)
    def get(self, request: Request, *_args: object, **_kwargs: object) -> Response:
        """The description of every route."""
        return self._get_schema_response(request)  # type: ignore[no-any-return, no-untyped-call]


class DocsView(SpectacularSwaggerSplitView):
    """A page to read the description and to try it with a token."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    url_name = "api-schema"
    template_name = "console/api_docs.html"
