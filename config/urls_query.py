"""Every path under /api/query [Query 7; interfaces]."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from queryapi import api, api_files

query: list[URLPattern | URLResolver] = [
    path("query/submit", api.Submit.as_view(), name="query-submit"),
    path("query/status/<str:result_id>", api.Status.as_view(), name="query-status"),
    path("query/result/<str:result_id>", api.Result.as_view(), name="query-result"),
    path("query/result/<str:result_id>/rows.json", api_files.Rows.as_view(), name="query-rows"),
    path(
        "query/result/<str:result_id>/download", api_files.Download.as_view(), name="query-download"
    ),
    path("query/evidence/<str:result_id>", api_files.Evidence.as_view(), name="query-evidence"),
    path("query/descriptor/<str:query_id>", api.Descriptor.as_view(), name="query-descriptor"),
    path("query/cancel/<str:result_id>", api.Cancel.as_view(), name="query-cancel"),
    path("query/list", api.Listing.as_view(), name="query-list"),
    path("query/replay", api.Replays.as_view(), name="query-replays"),
    path("query/replay/<uuid:replay_id>", api.OneReplay.as_view(), name="query-replay"),
]
