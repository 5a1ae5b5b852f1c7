"""Writes of the console: counting failed logins [experience 2.1: lockout]."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Min
from django.utils.crypto import salted_hmac

from console.models import LoginFailure
from recorder.models import AuthoredEvent
from recorder.services import record_event
from recorder.streams import CHANGES

LOCKED: Final = "login.locked"
WINDOW: Final = timedelta(minutes=15)
FAILURES_PER_NAME_MAX: Final = 5
FAILURES_PER_ADDRESS_MAX: Final = 30


def _name_hash(name: str) -> str:
    return salted_hmac(
        "console.login", name.casefold(), secret=settings.SECRET_KEY, algorithm="sha256"
    ).hexdigest()


def record_failed_login(*, name: str, address: str, now: datetime) -> None:
    """Count one failure, forget those that no longer matter; a lockout is an event of the log."""
    LoginFailure.objects.filter(at__lt=now - WINDOW).delete()
    LoginFailure.objects.create(name_hash=_name_hash(name), address=address, at=now)
    wait_s = login_wait_s(name=name, address=address, now=now)
    if wait_s:
        _record_lockout(name=name, address=address, now=now, wait_s=wait_s)


def _record_lockout(*, name: str, address: str, now: datetime, wait_s: int) -> None:
    """What was typed as a name may be a password: only the name of an account is told."""
    account = get_user_model().objects.filter(username=name).values_list("username", flat=True)
    record_event(
        key=f"login-locked/{uuid.uuid4()}",
        identity=AuthoredEvent.Identity.RECORDER,
        stream=CHANGES,
        event_type=LOCKED,
        subject_id=account.first() or "",
        payload={"address": address, "wait_s": wait_s, "is_account": account.exists()},
        event_time_ms=int(now.timestamp() * 1000),
    )


def forget_failed_logins(*, name: str, address: str) -> None:
    """A right password clears that name from that address, and nothing else."""
    LoginFailure.objects.filter(name_hash=_name_hash(name), address=address).delete()


def login_wait_s(*, name: str, address: str, now: datetime) -> int:
    """Seconds until another attempt is allowed; 0 when it is allowed now.

    A name is counted per address: a stranger elsewhere must not be able to lock an operator out.
    """
    recent = LoginFailure.objects.filter(at__gte=now - WINDOW, address=address)
    for failures, allowed in (
        (recent.filter(name_hash=_name_hash(name)), FAILURES_PER_NAME_MAX),
        (recent, FAILURES_PER_ADDRESS_MAX),
    ):
        newest = failures.order_by("-at")[:allowed].values("at")
        if len(newest) == allowed:
            oldest: datetime | None = newest.aggregate(oldest=Min("at"))["oldest"]
            assert oldest is not None
            return max(1, int((oldest + WINDOW - now).total_seconds()) + 1)
    return 0
