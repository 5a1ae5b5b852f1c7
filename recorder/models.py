"""Tables of the recorder: what administrators set up, and what waits to be recorded [SDR0 3.2].

Every change of a stream, mapping, producer, reader or token is an Act: a row that the author
process executes and records in the log. Keys never stand here, tokens only as hashes.
"""

from __future__ import annotations

import uuid
from typing import ClassVar, Final

from django.db import models

HASH_HEX: Final = 64
NAME_MAX: Final = 128


class Stream(models.Model):
    """A stream of the recorder as it is set up now."""

    name = models.CharField(max_length=NAME_MAX, primary_key=True)
    label = models.CharField(max_length=HASH_HEX, unique=True)
    label_class = models.CharField(max_length=32)
    sensitivity = models.CharField(max_length=16)
    retention_hint = models.PositiveBigIntegerField()
    event_bytes_max = models.PositiveIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class EventType(models.Model):
    """Each event type maps to exactly one stream."""

    event_type = models.CharField(max_length=NAME_MAX, primary_key=True)
    stream = models.ForeignKey(Stream, on_delete=models.PROTECT, related_name="event_types")

    class Meta:
        ordering: ClassVar = ["event_type"]
        verbose_name = "event type"

    def __str__(self) -> str:
        return f"{self.event_type} -> {self.stream_id}"


class ReaderKey(models.Model):
    """A stream's public reader key as the recorder admin signed it; the newest is sealed to."""

    stream = models.ForeignKey(Stream, on_delete=models.PROTECT, related_name="reader_keys")
    key_id = models.PositiveBigIntegerField()
    record = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["stream", "-key_id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["stream", "key_id"], name="one_reader_key_per_id"),
        ]
        verbose_name = "reader key"

    def __str__(self) -> str:
        return f"{self.stream_id} key {self.key_id}"


class Reader(models.Model):
    """Someone to whom stream secrets are wrapped: the admin, the query engine, a partner."""

    name = models.CharField(max_length=NAME_MAX, primary_key=True)
    dh_pk = models.CharField(max_length=HASH_HEX, unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class ReaderGrant(models.Model):
    """One wrapped reader secret."""

    reader = models.ForeignKey(Reader, on_delete=models.PROTECT, related_name="grants")
    stream = models.ForeignKey(Stream, on_delete=models.PROTECT, related_name="grants")
    key_id = models.PositiveBigIntegerField()
    wrapped = models.BinaryField()

    class Meta:
        ordering: ClassVar = ["reader", "stream", "-key_id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["reader", "stream", "key_id"], name="one_grant_per_reader_and_key"
            ),
        ]
        verbose_name = "reader grant"

    def __str__(self) -> str:
        return f"{self.reader_id} reads {self.stream_id} key {self.key_id}"


class Producer(models.Model):
    """One emitting service and its key; a rotated producer has one row per key."""

    class Held(models.TextChoices):
        FILE = "file"  # the key is with the service, in its connection file
        GATEWAY = "gateway"  # the key never leaves the gateway

    name = models.CharField(max_length=NAME_MAX, db_index=True)
    principal = models.CharField(max_length=HASH_HEX, unique=True)
    held = models.CharField(max_length=16, choices=Held)
    streams = models.ManyToManyField(Stream, related_name="producers")
    cap_token = models.BinaryField()
    auth_ref = models.CharField(max_length=HASH_HEX)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)  # rotated or revoked
    ended_because = models.CharField(max_length=200, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)  # the hub refuses it from then on

    class Meta:
        ordering: ClassVar = ["name", "-created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(ended_at__isnull=True),
                name="one_active_key_per_producer",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.principal[:8]})"


class ApiToken(models.Model):
    """A bearer token of the web and the gateway: a producer's, a reader's or an administrator's."""

    class Role(models.TextChoices):
        PRODUCER = "producer"
        READER = "reader"
        ADMIN = "admin"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=NAME_MAX)
    role = models.CharField(max_length=16, choices=Role)
    sha256 = models.CharField(max_length=HASH_HEX, unique=True)
    producer_name = models.CharField(max_length=NAME_MAX, blank=True)  # of a producer's token
    all_streams = models.BooleanField(default=False)
    streams = models.ManyToManyField(Stream, related_name="reader_tokens", blank=True)
    principal_id = models.CharField(max_length=HASH_HEX, blank=True)  # who asks, in queries
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["name", "created_at"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.role})"


class Act(models.Model):
    """An administrative act: asked for by a person, executed and recorded by the author."""

    class State(models.TextChoices):
        PENDING = "pending"
        DONE = "done"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    verb = models.CharField(max_length=64)
    args = models.JSONField()
    actor = models.CharField(max_length=200)  # becomes subject_id of the recorded event
    reason = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING, db_index=True)
    result = models.JSONField(default=dict)
    error_code = models.CharField(max_length=64, blank=True)
    message = models.TextField(blank=True)
    created_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        verbose_name = "administrative act"

    def __str__(self) -> str:
        return f"{self.verb} by {self.actor}: {self.state}"


class AuthoredEvent(models.Model):
    """An event that a service of the product records; its key makes it happen once."""

    class Identity(models.TextChoices):
        RECORDER = "recorder-service"
        QUERY = "query-engine"

    class State(models.TextChoices):
        PENDING = "pending"
        RECORDED = "recorded"
        REFUSED = "refused"

    key = models.CharField(max_length=200, primary_key=True)
    identity = models.CharField(max_length=32, choices=Identity)
    stream = models.CharField(max_length=NAME_MAX)
    event_type = models.CharField(max_length=NAME_MAX)
    subject_id = models.TextField()
    payload_text = models.TextField()  # canonical JSON
    event_time_ms = models.PositiveBigIntegerField()
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    error = models.TextField(blank=True)
    hub_commit_seq = models.PositiveBigIntegerField(null=True, blank=True)
    hub_commit_time_ms = models.PositiveBigIntegerField(null=True, blank=True)
    receipt_id = models.CharField(max_length=80, blank=True)
    receipt = models.BinaryField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["created_at"]
        indexes: ClassVar = [models.Index(fields=["state", "created_at"], name="authored_waiting")]
        verbose_name = "authored event"

    def __str__(self) -> str:
        return f"{self.event_type} on {self.stream}: {self.state}"


class Anchor(models.Model):
    """One manifest anchored outside the hub, or the failed try to do so [ANCHOR0]."""

    manifest_id = models.CharField(max_length=HASH_HEX, db_index=True)
    backend = models.CharField(max_length=32)
    anchor_ref = models.BinaryField(null=True, blank=True)
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    anchored_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["manifest_id", "backend"], name="one_anchor_per_manifest_and_backend"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.manifest_id[:12]} in {self.backend}"


class LakeJob(models.Model):
    """A run of ingest, seal or audit, for people who want to see how far it is."""

    class State(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16)
    args = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING, db_index=True)
    progress = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        verbose_name = "lake job"

    def __str__(self) -> str:
        return f"{self.kind}: {self.state}"
