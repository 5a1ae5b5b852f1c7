"""Tables of the query layer: executions whose states only go forward, and replays [Query 8.1].

PENDING -> RUNNING -> COMPLETED | FAILED, or PENDING -> FAILED. `services` moves a row by one update
that names the state it comes from, so nothing moves twice and nothing moves back. A digest is set
before its event is recorded, and from then on nothing but COMPLETED can follow.
"""

from __future__ import annotations

import uuid
from typing import ClassVar, Final

from django.db import models
from django.db.models import Q

HASH_HEX: Final = 64
QUERY_ID_MAX: Final = 128


class State(models.TextChoices):
    """Where an execution or a replay is."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


OPEN: Final = (State.PENDING, State.RUNNING)


class Execution(models.Model):
    """One query as it was recorded, and how far its answer is."""

    result_id = models.CharField(max_length=HASH_HEX + 2, primary_key=True)
    query_id = models.CharField(max_length=QUERY_ID_MAX, unique=True)
    principal_id = models.CharField(max_length=HASH_HEX)
    descriptor = models.TextField()  # canonical JSON
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    error_code = models.CharField(max_length=64, blank=True)
    message = models.TextField(blank=True)
    digest = models.TextField(blank=True)  # canonical JSON, set once
    rows_bytes = models.PositiveBigIntegerField(default=0)
    step = models.CharField(max_length=64, blank=True)
    tasks_done = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    holder = models.CharField(max_length=64, blank=True)  # which worker runs it
    held_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    rows_removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-result_id"]
        indexes: ClassVar = [
            models.Index(fields=["state", "created_at"], name="execution_waiting"),
            models.Index(fields=["principal_id", "-created_at"], name="execution_by_asker"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(state="completed") | ~Q(digest=""), name="completed_has_a_digest"
            ),
            models.CheckConstraint(
                condition=~Q(state="failed") | (~Q(error_code="") & Q(digest="")),
                name="failed_has_a_code_and_no_digest",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.query_id}: {self.state}"


class Replay(models.Model):
    """A recorded query asked again here, and how its digest compares."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    principal_id = models.CharField(max_length=HASH_HEX)
    query_id = models.CharField(max_length=QUERY_ID_MAX)
    result_id = models.CharField(max_length=HASH_HEX + 2)
    descriptor = models.TextField()
    their_digest = models.TextField()
    local_digest = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    error_code = models.CharField(max_length=64, blank=True)
    message = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    holder = models.CharField(max_length=64, blank=True)
    held_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"replay of {self.query_id}: {self.state}"
