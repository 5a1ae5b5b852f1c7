"""Every path under /api [interfaces]."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from config.api_docs import DocsView, SchemaView
from recorder import api, api_events, api_replay

recorder: list[URLPattern | URLResolver] = [
    path("record/events", api_events.RecordEvents.as_view(), name="record-events"),
    path("record/replay", api_replay.ReplayEvents.as_view(), name="record-replay"),
    path("record/streams", api.Streams.as_view(), name="record-streams"),
    path("record/manifests/<str:manifest_id>", api.Manifests.as_view(), name="record-manifest"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    *recorder,
    path("v1/", include((recorder, "v1"))),
    path("schema", SchemaView.as_view(), name="api-schema"),
    path("docs", DocsView.as_view(), name="api-docs"),
]
