"""How views become the OpenAPI description of /api [interfaces]."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema


class ApiSchema(AutoSchema):
    """Adds what every operation has in common."""
