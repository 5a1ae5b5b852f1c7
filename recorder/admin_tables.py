"""What every table of the recorder's admin has: buttons that lead to acts [experience 1.1, 1.6]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from hub.admin import ReadOnlyAdmin
from recorder.admin_verbs import ADMIN_VERBS, AdminVerb

if TYPE_CHECKING:
    _Inline = admin.TabularInline[Any, Any]
else:  # Django's classes take no type arguments when they run.
    _Inline = admin.TabularInline

PAGE = 200
_TONES = {
    "done": "ok", "recorded": "ok", "active": "ok", "anchored": "ok", "failed": "bad",
    "refused": "bad", "revoked": "off", "ended": "off", "cancelled": "off",
}  # fmt: skip


def badge(word: str) -> SafeString:
    """A state by word and by colour, never by colour alone."""
    return format_html('<span class="veen-state {}">{}</span>', _TONES.get(word, "wait"), word)


class RecorderAdmin(ReadOnlyAdmin):
    """A table of the recorder: its buttons lead to acts, and an empty one says how it fills."""

    list_per_page = PAGE
    list_verbs: ClassVar[Sequence[str]] = ()
    empty_hint: ClassVar[str] = ""

    def object_verbs(self, row: Any) -> Sequence[str]:  # noqa: ANN401 - a row of the table
        """The acts that this row allows."""
        del row
        return ()

    def on(self, row: Any) -> str:  # noqa: ANN401
        """How an act names this row."""
        return str(row.pk)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        extra = {
            "verbs": _buttons(request, self.list_verbs),
            "empty_hint": self.empty_hint,
            **(extra_context or {}),
        }
        return super().changelist_view(request, extra)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        extra = {
            "verbs": [] if row is None else _buttons(request, self.object_verbs(row), self.on(row)),
            **(extra_context or {}),
        }
        return super().change_view(request, object_id, form_url, extra)


def _buttons(request: HttpRequest, verbs: Sequence[str], on: str = "") -> list[dict[str, object]]:
    if not request.user.has_perm("recorder.add_act"):
        return []
    found = []
    for name in verbs:
        verb: AdminVerb = ADMIN_VERBS[name]
        url = reverse("admin:recorder_act_ask", args=[name], query={"on": on} if on else None)
        found.append({"url": url, "verb": verb})
    return found


class ReadOnlyInline(_Inline):
    """Rows that belong to the page, to be looked at."""

    extra = 0
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False
