"""Every path under /api [interfaces]."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from config.api_docs import DocsView, SchemaView
from config.urls_query import query
from recorder import api, api_admin, api_events, api_lake, api_replay

recorder: list[URLPattern | URLResolver] = [
    path("record/events", api_events.RecordEvents.as_view(), name="record-events"),
    path("record/replay", api_replay.ReplayEvents.as_view(), name="record-replay"),
    path("record/streams", api.Streams.as_view(), name="record-streams"),
    path("record/manifests/<str:manifest_id>", api.Manifests.as_view(), name="record-manifest"),
    path("record/checkpoints", api_admin.Checkpoints.as_view(), name="record-checkpoints"),
    path("admin/acts", api_admin.Acts.as_view(), name="admin-acts"),
    path("admin/acts/<uuid:act_id>", api_admin.OneAct.as_view(), name="admin-act"),
    path("admin/lake-jobs", api_lake.LakeJobs.as_view(), name="admin-lake-jobs"),
    path("admin/lake-jobs/<uuid:job_id>", api_lake.OneJob.as_view(), name="admin-lake-job"),
    path(
        "admin/lake-jobs/<uuid:job_id>/cancel", api_lake.CancelJob.as_view(), name="cancel-lake-job"
    ),
    path("admin/streams", api_admin.Streams.as_view(), name="admin-streams"),
    path("admin/producers", api_admin.Producers.as_view(), name="admin-producers"),
    path("admin/tokens", api_admin.Tokens.as_view(), name="admin-tokens"),
    path("admin/findings", api_admin.Findings.as_view(), name="admin-findings"),
    path("admin/readers", api_admin.Readers.as_view(), name="admin-readers"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    *recorder,
    *query,
    path("v1/", include(([*recorder, *query], "v1"))),
    path("schema", SchemaView.as_view(), name="api-schema"),
    path("docs", DocsView.as_view(), name="api-docs"),
]
