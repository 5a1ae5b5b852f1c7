"""Settings of the API's framework, read while it may not be imported yet [interfaces]."""

from __future__ import annotations

from typing import Any, Final

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
    "DESCRIPTION": "Record events, replay them with proofs, and administer the recorder.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
}
