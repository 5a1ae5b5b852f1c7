"""How hashes, numbers and times read on every page [experience 1.6]."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from django import template

register = template.Library()

SHOWN_WHOLE_MAX: Final = 20


@register.filter
def short_hash(text: str) -> str:
    """Shortened in the middle; the full text belongs into the title."""
    return text if len(text) <= SHOWN_WHOLE_MAX else f"{text[:8]}…{text[-6:]}"


@register.filter
def short_object(text: str) -> str:
    """An object of a finding: its kind, and its id shortened."""
    kind, _, name = text.partition(" ")
    return f"{kind} {short_hash(name)}".strip()


@register.filter
def thousands(number: int) -> str:
    """Groups of three with thin blanks, which no language reads as a decimal sign."""
    return f"{number:,}".replace(",", "\u202f")


@register.filter
def minus(number: int, other: int) -> int:
    return number - other


@register.filter
def unix_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
