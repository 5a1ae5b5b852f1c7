"""Admin of the index: what the log says is looked at and never edited [experience 1.1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from hub.models import LabelHead, ManifestRow

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's classes take no type arguments when they run.
    _ModelAdmin = admin.ModelAdmin


def shortened(text: str) -> SafeString:
    """A hash cut in the middle, whole on hover."""
    return format_html('<code title="{}">{}…{}</code>', text, text[:8], text[-6:])


class ReadOnlyAdmin(_ModelAdmin):
    """What the log says cannot be edited here, by anyone."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False


@admin.register(LabelHead)
class LabelHeadAdmin(ReadOnlyAdmin):
    list_display = (
        "short_label",
        "stream_name",
        "upto_seq",
        "short_root",
        "checkpoint_seq",
        "updated",
    )
    search_fields = ("label", "stream_name")
    list_per_page = 200

    @admin.display(description="label", ordering="label")
    def short_label(self, row: LabelHead) -> str:
        return shortened(row.label)

    @admin.display(description="root")
    def short_root(self, row: LabelHead) -> str:
        return shortened(row.root)


@admin.register(ManifestRow)
class ManifestRowAdmin(ReadOnlyAdmin):
    list_display = ("short_id", "created_at", "labels", "messages", "verified")
    search_fields = ("manifest_id",)
    date_hierarchy = "created_at"
    list_per_page = 200

    @admin.display(description="manifest", ordering="manifest_id")
    def short_id(self, row: ManifestRow) -> str:
        return shortened(row.manifest_id)
