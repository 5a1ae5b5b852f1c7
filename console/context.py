"""What the frame of every page shows: zone, hub, fingerprint [experience 1.5: shell]."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest


def running_status() -> dict[str, Any]:
    """The status file of the running bundle; empty when it is missing or half written."""
    try:
        status = json.loads(settings.VEEN_STATUS_FILE.read_bytes())
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def shell(request: HttpRequest) -> dict[str, Any]:  # noqa: ARG001 - Django's signature
    status = running_status()
    return {
        "zone": settings.VEEN_ZONE,
        "hub_id": status.get("hub_id") or "",
        "hub_pk": status.get("hub_pk") or "",
        "hub_url": status.get("hub_url") or "",
    }
