"""One page for "is it moving": what waits to be recorded, and how far the lake is [experience 1.5].

Reads SQL, the lake's manifests and the gateway's health; it never asks for anything to be done.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from hub.errors import VeenError
from hub.models import LabelHead
from recorder.api_events import gateway_url
from recorder.lake.manifest import SegmentState
from recorder.lake.reader import open_snapshot
from recorder.models import Act, AuthoredEvent, LakeJob, Stream
from recorder.queries import label_of

HEALTH_TIMEOUT_S: Final = 1.0
STREAMS_SHOWN_MAX: Final = 200


class _Pages(Protocol):
    """An AdminSite to which an app may add a page of its own."""

    def add_page(
        self, *, app_label: str, name: str, title: str, view: Callable[..., HttpResponse]
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLake:
    """How far the lake is behind one stream."""

    name: str
    head: int  # the newest that was verified here
    held: int
    first: int
    live: int
    sealed: int
    problem: str = ""

    @property
    def behind(self) -> int:
        """Entries that are recorded and not in the lake yet."""
        return max(0, self.head - self.held)


def stream_lakes() -> list[StreamLake]:
    """Two queries, and one small file for each stream."""
    streams = list(Stream.objects.order_by("name")[:STREAMS_SHOWN_MAX])
    heads = dict(
        LabelHead.objects.filter(label__in=[one.label for one in streams]).values_list(
            "label", "upto_seq"
        )
    )
    return [_lake_of(one, heads.get(one.label, 0)) for one in streams]


def _lake_of(stream: Stream, head: int) -> StreamLake:
    try:
        snapshot = open_snapshot(settings.VEEN_LAKE_DIR, label_of(stream))
    except VeenError as damage:
        return StreamLake(
            name=stream.name, head=head, held=0, first=1, live=0, sealed=0, problem=str(damage)
        )
    if snapshot is None:
        return StreamLake(name=stream.name, head=head, held=0, first=1, live=0, sealed=0)
    states = [one.state for one in snapshot.manifest.segments]
    return StreamLake(
        name=stream.name,
        head=head,
        held=snapshot.manifest.upto_seq,
        first=snapshot.manifest.first_seq,
        live=states.count(SegmentState.LIVE),
        sealed=states.count(SegmentState.SEALED),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is asked for and not done yet."""

    acts: int
    events: int
    refused: int
    jobs_running: int
    jobs_failed: int


def waiting() -> Waiting:
    """Three queries."""
    events = AuthoredEvent.objects.aggregate(
        pending=Count("pk", filter=Q(state=AuthoredEvent.State.PENDING)),
        refused=Count("pk", filter=Q(state=AuthoredEvent.State.REFUSED)),
    )
    running = [LakeJob.State.PENDING, LakeJob.State.RUNNING]
    jobs = LakeJob.objects.aggregate(
        running=Count("pk", filter=Q(state__in=running)),
        failed=Count("pk", filter=Q(state=LakeJob.State.FAILED)),
    )
    return Waiting(
        acts=Act.objects.filter(state=Act.State.PENDING).count(),
        events=events["pending"],
        refused=events["refused"],
        jobs_running=jobs["running"],
        jobs_failed=jobs["failed"],
    )


def gateway_state() -> tuple[str, str]:
    """`up` or `down`, and where or why."""
    try:
        url = gateway_url()
    except VeenError:
        return "down", "not running"
    parts = urlsplit(url)
    kind: Any = (
        http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    )
    link: http.client.HTTPConnection = kind(parts.hostname, parts.port, timeout=HEALTH_TIMEOUT_S)
    try:
        link.request("GET", "/healthz")
        status = link.getresponse().status
    except (OSError, http.client.HTTPException):
        return "down", f"{url} does not answer"
    finally:
        link.close()
    return ("up", url) if status == 200 else ("down", f"{url} answers {status}")


class IngestPage:
    """The page itself."""

    title: Final = "Spools and ingest"

    @classmethod
    def add_to(cls, site: AdminSite) -> None:
        """Put the page among those of the recorder."""
        cast("_Pages", site).add_page(
            app_label="recorder", name="recorder_ingest", title=cls.title, view=cls(site).show
        )

    def __init__(self, site: AdminSite) -> None:
        self._site = site

    def show(self, request: HttpRequest) -> HttpResponse:
        """As of now."""
        lakes = stream_lakes()
        word, where = gateway_state()
        context = {
            **self._site.each_context(request),
            "title": self.title,
            "lakes": lakes,
            "behind": sum(one.behind for one in lakes),
            "waiting": waiting(),
            "gateway": {"word": word, "where": where},
        }
        return TemplateResponse(request, "admin/recorder/ingest.html", context)
