"""A time-stamping backend from its settings, and which addresses it may reach [ANCHOR0.1]."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from hub.errors import ErrorCode, VeenError
from recorder.anchors.outbound import PORTS, name_of
from recorder.anchors.timestamp import PinnedCertificates, Timestamps


def timestamps(url: str, certificates: Path, allow: Collection[str] = ()) -> Timestamps:
    """The authority at `url`; its own host and port are listed by being configured."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise VeenError(ErrorCode.CONFIG, f"{url!r} is not an http or https URL") from None
    allowed = {name_of(parts.hostname or "", port), *allow}
    return Timestamps(PinnedCertificates.read(certificates), url, allowed=allowed)
