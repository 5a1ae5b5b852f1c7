"""Admin of the index: log-derived rows are looked at, findings acknowledged [experience 1.1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from hub import services
from hub.errors import VeenError
from hub.models import Finding, LabelHead, ManifestRow

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _FindingForm = forms.ModelForm[Finding]
else:  # Django's classes take no type arguments when they run.
    _ModelAdmin = admin.ModelAdmin
    _FindingForm = forms.ModelForm


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


class AcknowledgeForm(_FindingForm):
    class Meta:
        model = Finding
        fields = ("reason",)

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"].strip()
        if len(reason) < services.REASON_LENGTH_MIN:
            raise forms.ValidationError("Say why this finding may rest.")
        return reason


@admin.register(Finding)
class FindingAdmin(ReadOnlyAdmin):
    """Only the reason can be written, and only while nobody has."""

    form = AcknowledgeForm
    list_display = ("code", "severity", "object", "first_seen", "last_seen", "acknowledged_by")
    list_filter = ("severity", "code")
    search_fields = ("code", "object")
    readonly_fields = (
        "code", "severity", "object", "detail", "first_seen", "last_seen", "acknowledged_by",
    )  # fmt: skip
    fields = (*readonly_fields, "reason")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if isinstance(obj, Finding) and obj.acknowledged_by:
            return False
        return _ModelAdmin.has_change_permission(self, request, obj)

    def save_model(
        self,
        request: HttpRequest,
        obj: Finding,
        form: object,  # noqa: ARG002 - Django's signature
        change: bool,  # noqa: ARG002, FBT001
    ) -> None:
        try:
            services.acknowledge_finding(obj.pk, by=request.user.get_username(), reason=obj.reason)
        except VeenError as refusal:
            messages.error(request, str(refusal))
