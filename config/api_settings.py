"""Settings of the API's framework, read while it may not be imported yet [interfaces]."""

from __future__ import annotations

from typing import Any, Final

from queryapi.api_schemas import SCHEMAS as QUERY_SCHEMAS
from recorder.api_schemas import SCHEMAS

BODY_BYTES_MAX: Final = 1024 * 1024

REST_FRAMEWORK: Final[dict[str, Any]] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["recorder.auth.TokenAuthentication"],
    # A view that does not say who may use it is closed.
    "DEFAULT_PERMISSION_CLASSES": ["recorder.auth.HasRole"],
    "DEFAULT_PARSER_CLASSES": ["config.api.StrictJsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "config.api.JsonAlways",
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS is answered like any other method we do not have
    "DEFAULT_SCHEMA_CLASS": "config.api_schema.ApiSchema",
    "EXCEPTION_HANDLER": "config.errors.api_exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "STRICT_JSON": True,
}

SPECTACULAR_SETTINGS: Final[dict[str, Any]] = {
    "TITLE": "VEEN",
    "DESCRIPTION": "Record events, replay them with proofs, and administer the recorder. Hashes, "
    "labels and ids are lower-case hex, byte strings standard base64 with padding. Every error is "
    "one object with `error_code` and `message`.",
    "VERSION": "1",
    "OAS_VERSION": "3.0.3",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": False, "persistAuthorization": False},
    "PREPROCESSING_HOOKS": ["config.api_schema.without_aliases"],
    "POSTPROCESSING_HOOKS": [],
    "APPEND_COMPONENTS": {
        "schemas": {**SCHEMAS, **QUERY_SCHEMAS},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    },
    "TAGS": [
        {"name": "record", "description": "Events, replay, streams and checkpoints."},
        {"name": "query", "description": "Questions whose answers carry their proof."},
        {"name": "admin", "description": "Acts of administrators, executed and recorded."},
    ],
}
