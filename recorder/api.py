"""The recorder's reads over HTTP: streams and manifests; and the checkpoint on demand [SDR0 3.2].

Refusals are rendered in config/errors.py.
"""

from __future__ import annotations

import re
from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from hub.types import ManifestId
from recorder import api_docs, queries
from recorder.api_view import ApiView, b64, check_parameters
from recorder.auth import EVERY_ROLE, PRODUCER, READERS, caller_of
from recorder.codes import RecordCode, RecordError
from recorder.hub_reads import HubReads

_HEX32: Final = re.compile(r"[0-9a-f]{64}")


class Streams(ApiView):
    """The streams a caller may see; a producer sees what it needs to write to its own."""

    roles = EVERY_ROLE
    operations = {"GET": api_docs.STREAMS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """List them by name."""
        check_parameters(request)
        caller = caller_of(request)
        if caller.token.role == PRODUCER:
            return Response({
                "streams": [
                    {
                        "name": stream.name,
                        "label": stream.label,
                        "event_types": list(types),
                        "event_bytes_max": stream.event_bytes_max,
                        "reader_key": b64(record),
                    }
                    for stream, types, record in queries.producer_streams(caller.own())
                ]
            })  # fmt: skip
        with HubReads() as hub:
            states = queries.stream_states(caller.readable(), hub)
        return Response({"streams": [one.to_json() for one in states]})


class Manifests(ApiView):
    """A signed checkpoint manifest and the rotation records that lead to its key."""

    roles = READERS
    operations = {"GET": api_docs.MANIFEST}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request, manifest_id: str) -> Response:
        """By id, or the newest."""
        check_parameters(request)
        if manifest_id != "latest" and not _HEX32.fullmatch(manifest_id):
            raise no_manifest()
        wanted = None if manifest_id == "latest" else ManifestId(bytes.fromhex(manifest_id))
        with HubReads() as hub:
            manifest = hub.manifest(wanted)
            if manifest is None:
                raise no_manifest()
            rotations = hub.rotations()
        return Response({
            "manifest": b64(manifest.encode()), "rotations": [b64(one) for one in rotations],
        })  # fmt: skip


def no_manifest() -> RecordError:
    """The id names nothing, or nothing was checkpointed yet."""
    return RecordError(RecordCode.NOT_FOUND, "There is no such manifest.")
