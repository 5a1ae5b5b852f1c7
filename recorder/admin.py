"""Admin of the recorder: everything can be looked at, and changes only by acts [experience 1.1]."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Max, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html

import recorder.admin_accounts  # noqa: F401 - it registers them
from hub.admin import ManifestRowAdmin, shortened
from hub.models import Finding, LabelHead, ManifestRow
from recorder.acts.authority import ADMIN_READER
from recorder.admin_acts import ask_act, pretty
from recorder.admin_state import IngestPage
from recorder.admin_tables import ReadOnlyInline, RecorderAdmin, badge
from recorder.models import (
    Act,
    Anchor,
    ApiToken,
    AuthoredEvent,
    EventType,
    LakeJob,
    Producer,
    Reader,
    ReaderGrant,
    ReaderKey,
    Stream,
)
from recorder.queries import shown_args, shown_retention
from recorder.streams import is_reserved


class EventTypeInline(ReadOnlyInline):
    model = EventType
    fields = ("event_type",)


class ReaderKeyInline(ReadOnlyInline):
    model = ReaderKey
    fields = ("key_id", "created_at")


class GrantOfStreamInline(ReadOnlyInline):
    model = ReaderGrant
    fields = ("reader", "key_id")


class GrantOfReaderInline(ReadOnlyInline):
    model = ReaderGrant
    fields = ("stream", "key_id")


@admin.register(Stream)
class StreamAdmin(RecorderAdmin):
    list_display = ("name", "label_class", "sensitivity", "retention", "types", "key", "head")
    list_filter = ("sensitivity", "label_class")
    search_fields = ("name", "label")
    fields = (
        "name", "label", "label_class", "sensitivity", "retention", "event_bytes_max", "created_at",
    )  # fmt: skip
    readonly_fields = ("retention",)
    inlines = (EventTypeInline, ReaderKeyInline, GrantOfStreamInline)
    list_verbs = ("stream.create", "lake.seal")
    empty_hint = "veen stream create record/app/shop --event-type order.placed"

    def object_verbs(self, row: Stream) -> Sequence[str]:
        if is_reserved(row.name):
            return ("stream.rotate_key", "lake.seal")
        return (
            "stream.map", "stream.rotate_key", "stream.class", "retention.set", "lake.seal",
            "stream.migrate.rename", "stream.migrate.split", "retention.prune",
        )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        head = LabelHead.objects.filter(label=OuterRef("label")).values("upto_seq")[:1]
        rows: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(
                type_count=Count("event_types", distinct=True),
                newest_key=Max("reader_keys__key_id"),
                head_seq=Subquery(head),
            )
        )
        return rows

    @admin.display(description="event types", ordering="type_count")
    def types(self, row: Any) -> int:  # noqa: ANN401 - a row with its annotations
        return int(row.type_count)

    @admin.display(description="key", ordering="newest_key")
    def key(self, row: Any) -> int | None:  # noqa: ANN401
        found: int | None = row.newest_key
        return found

    @admin.display(description="head at last checkpoint", ordering="head_seq")
    def head(self, row: Any) -> int:  # noqa: ANN401
        return int(row.head_seq or 0)

    @admin.display(description="retention", ordering="retention_hint")
    def retention(self, row: Stream) -> str:
        return shown_retention(row.retention_hint)


@admin.register(EventType)
class EventTypeAdmin(RecorderAdmin):
    list_display = ("event_type", "stream")
    list_select_related = ("stream",)
    search_fields = ("event_type", "stream__name")
    empty_hint = "veen stream create record/app/shop --event-type order.placed"


@admin.register(Producer)
class ProducerAdmin(RecorderAdmin):
    list_display = ("name", "short_principal", "held", "stream_count", "state", "created_at")
    list_filter = ("held",)
    search_fields = ("name", "principal")
    fields = (
        "name", "principal", "held", "streams", "auth_ref", "state", "created_at", "ended_at",
        "ended_because", "revoked_at",
    )  # fmt: skip
    readonly_fields = ("state",)
    list_verbs = ("producer.add",)
    empty_hint = "veen recorder producer add billing --stream record/app/shop"

    def object_verbs(self, row: Producer) -> Sequence[str]:
        return () if row.ended_at else ("producer.rotate", "producer.revoke")

    def on(self, row: Producer) -> str:
        return row.name

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(streams_held=Count("streams"))
        return rows

    @admin.display(description="principal")
    def short_principal(self, row: Producer) -> str:
        return shortened(row.principal)

    @admin.display(description="streams", ordering="streams_held")
    def stream_count(self, row: Any) -> int:  # noqa: ANN401
        return int(row.streams_held)

    @admin.display(description="state")
    def state(self, row: Producer) -> str:
        if row.revoked_at:
            return badge("revoked")
        return badge("ended" if row.ended_at else "active")


@admin.register(ApiToken)
class ApiTokenAdmin(RecorderAdmin):
    """The hash is nobody's business either: who has it could look for it elsewhere."""

    list_display = ("name", "role", "producer_name", "state", "created_at", "last_used_at")
    list_filter = ("role",)
    search_fields = ("name", "producer_name")
    fields = (
        "name", "role", "producer_name", "all_streams", "streams", "principal_id", "state",
        "created_at", "last_used_at", "revoked_at",
    )  # fmt: skip
    readonly_fields = ("state",)
    list_verbs = ("token.create",)
    empty_hint = "veen token create --role reader --all --name audit"

    def object_verbs(self, row: ApiToken) -> Sequence[str]:
        return () if row.revoked_at else ("token.revoke",)

    @admin.display(description="state", ordering="revoked_at")
    def state(self, row: ApiToken) -> str:
        return badge("revoked" if row.revoked_at else "active")


@admin.register(Reader)
class ReaderAdmin(RecorderAdmin):
    list_display = ("name", "short_key", "grant_count", "state", "created_at")
    search_fields = ("name", "dh_pk")
    fields = ("name", "dh_pk", "state", "created_at", "revoked_at")
    readonly_fields = ("state",)
    inlines = (GrantOfReaderInline,)
    list_verbs = ("reader.add",)
    empty_hint = "veen up"

    def object_verbs(self, row: Reader) -> Sequence[str]:
        return () if row.revoked_at or row.name == ADMIN_READER else ("reader.revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(grants_held=Count("grants"))
        return rows

    @admin.display(description="key")
    def short_key(self, row: Reader) -> str:
        return shortened(row.dh_pk)

    @admin.display(description="keys held", ordering="grants_held")
    def grant_count(self, row: Any) -> int:  # noqa: ANN401
        return int(row.grants_held)

    @admin.display(description="state", ordering="revoked_at")
    def state(self, row: Reader) -> str:
        return badge("revoked" if row.revoked_at else "active")


@admin.register(ReaderKey)
class ReaderKeyAdmin(RecorderAdmin):
    list_display = ("stream", "key_id", "created_at")
    list_select_related = ("stream",)
    search_fields = ("stream__name",)
    fields = ("stream", "key_id", "created_at")
    empty_hint = "veen stream create record/app/shop"


@admin.register(ReaderGrant)
class ReaderGrantAdmin(RecorderAdmin):
    list_display = ("reader", "stream", "key_id")
    list_select_related = ("reader", "stream")
    search_fields = ("reader__name", "stream__name")
    fields = ("reader", "stream", "key_id")
    empty_hint = "veen stream create record/app/shop"


@admin.register(Act)
class ActAdmin(RecorderAdmin):
    """What was asked for; a page that is not over yet loads itself again."""

    list_display = ("verb", "actor", "shown_state", "reason", "created_at")
    list_filter = ("state", "verb")
    search_fields = ("actor", "reason", "verb")
    date_hierarchy = "created_at"
    fields = (
        "verb", "shown_state", "actor", "reason", "shown_args", "shown_result", "error_code",
        "message", "created_at", "finished_at",
    )  # fmt: skip
    readonly_fields = ("shown_state", "shown_args", "shown_result")
    empty_hint = "veen hub checkpoint"
    refresh_s = 2

    def get_urls(self) -> list[URLPattern]:
        asking = path(
            "ask/<str:verb>/", self.admin_site.admin_view(ask_act), name="recorder_act_ask"
        )
        return [asking, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        response = super().change_view(request, object_id, form_url, extra_context)
        if Act.objects.filter(pk=object_id, state=Act.State.PENDING).exists():
            response["Refresh"] = str(self.refresh_s)  # needs no script
        return response

    @admin.display(description="state", ordering="state")
    def shown_state(self, row: Act) -> str:
        return badge(row.state)

    @admin.display(description="arguments")
    def shown_args(self, row: Act) -> str:
        return format_html("<pre>{}</pre>", pretty(shown_args(row)))

    @admin.display(description="result")
    def shown_result(self, row: Act) -> str:
        return format_html("<pre>{}</pre>", pretty(row.result)) if row.result else "—"


@admin.register(AuthoredEvent)
class AuthoredEventAdmin(RecorderAdmin):
    list_display = (
        "event_type",
        "stream",
        "subject_id",
        "shown_state",
        "hub_commit_seq",
        "created_at",
    )
    list_filter = ("state", "identity", "stream")
    search_fields = ("key", "event_type", "subject_id")
    fields = (
        "key", "identity", "stream", "event_type", "subject_id", "shown_payload", "shown_state",
        "error", "hub_commit_seq", "receipt_id", "created_at",
    )  # fmt: skip
    readonly_fields = ("shown_payload", "shown_state")
    empty_hint = "veen hub checkpoint"

    @admin.display(description="state", ordering="state")
    def shown_state(self, row: AuthoredEvent) -> str:
        return badge(row.state)

    @admin.display(description="payload")
    def shown_payload(self, row: AuthoredEvent) -> str:
        return format_html("<pre>{}</pre>", row.payload_text)


@admin.register(Anchor)
class AnchorAdmin(RecorderAdmin):
    list_display = ("short_manifest", "backend", "state", "tries", "anchored_at", "created_at")
    list_filter = ("backend",)
    search_fields = ("manifest_id",)
    fields = (
        "manifest_id", "backend", "state", "tries", "error", "anchored_at", "shown_ref",
        "created_at",
    )  # fmt: skip
    readonly_fields = ("state", "shown_ref")
    empty_hint = "veen hub anchor"

    @admin.display(description="manifest", ordering="manifest_id")
    def short_manifest(self, row: Anchor) -> str:
        return shortened(row.manifest_id)

    @admin.display(description="state")
    def state(self, row: Anchor) -> str:
        return badge("anchored" if row.anchored_at else "failed" if row.error else "waiting")

    @admin.display(description="anchor_ref")
    def shown_ref(self, row: Anchor) -> str:
        return format_html("<code>{}</code>", b64encode(bytes(row.anchor_ref or b"")).decode())


@admin.register(LakeJob)
class LakeJobAdmin(RecorderAdmin):
    list_display = ("kind", "shown_state", "created_at", "finished_at", "error")
    list_filter = ("kind", "state")
    fields = (
        "kind", "shown_state", "shown_args", "shown_progress", "shown_result", "error",
        "created_at", "finished_at",
    )  # fmt: skip
    readonly_fields = ("shown_state", "shown_args", "shown_progress", "shown_result")
    list_verbs = ("lake.seal", "lake.audit")
    empty_hint = "veen recorder seal"

    @admin.display(description="state", ordering="state")
    def shown_state(self, row: LakeJob) -> str:
        return badge(row.state)

    @admin.display(description="arguments")
    def shown_args(self, row: LakeJob) -> str:
        return format_html("<pre>{}</pre>", pretty(row.args))

    @admin.display(description="progress")
    def shown_progress(self, row: LakeJob) -> str:
        return format_html("<pre>{}</pre>", pretty(row.progress))

    @admin.display(description="result")
    def shown_result(self, row: LakeJob) -> str:
        return format_html("<pre>{}</pre>", pretty(row.result))


class CheckpointAdmin(RecorderAdmin, ManifestRowAdmin):
    """The hub's manifests, with the button that makes one."""

    list_verbs = ("checkpoint.now",)
    empty_hint = "veen hub checkpoint"
    change_list_template = "admin/recorder/change_list.html"


class FindingAdmin(RecorderAdmin):
    """What must not be; acknowledging it is an act like any other."""

    list_display = ("code", "severity", "object", "first_seen", "last_seen", "acknowledged_by")
    list_filter = ("severity", "code")
    search_fields = ("code", "object")
    fields = (
        "code", "severity", "object", "detail", "first_seen", "last_seen", "acknowledged_by",
        "reason",
    )  # fmt: skip
    empty_hint = "veen recorder audit"
    change_list_template = "admin/recorder/change_list.html"
    change_form_template = "admin/recorder/change_form.html"

    def object_verbs(self, row: Finding) -> Sequence[str]:
        return () if row.acknowledged_by else ("finding.acknowledge",)


admin.site.unregister(ManifestRow)
admin.site.register(ManifestRow, CheckpointAdmin)
admin.site.register(Finding, FindingAdmin)
IngestPage.add_to(admin.site)
