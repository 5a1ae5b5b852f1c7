"""Tables that repeat what the log says, for pages and searches [architecture: where truth lives].

Only Finding.acknowledged_by and its reason are written by people; all else is rebuilt from the hub.
"""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models

HASH_HEX: Final = 64


class LabelHead(models.Model):
    """The newest head of a label whose signature and consistency were verified here."""

    label = models.CharField(max_length=HASH_HEX, primary_key=True)
    stream_name = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001 - unknown
    upto_seq = models.PositiveBigIntegerField()
    root = models.CharField(max_length=HASH_HEX)
    hub_ts = models.PositiveBigIntegerField()
    checkpoint_seq = models.PositiveBigIntegerField()
    checkpoint_manifest = models.CharField(max_length=HASH_HEX)
    updated = models.DateTimeField(db_index=True)  # when the head last moved
    checked = models.DateTimeField(db_index=True)  # when it was last verified

    class Meta:
        ordering: ClassVar = ["label"]
        verbose_name = "label head"

    def __str__(self) -> str:
        return f"{self.stream_name or self.label[:12]} at {self.upto_seq}"


class ManifestRow(models.Model):
    """A signed checkpoint manifest; only what verified under a trusted key is stored."""

    manifest_id = models.CharField(max_length=HASH_HEX, primary_key=True)
    previous = models.CharField(max_length=HASH_HEX)
    hub_pk = models.CharField(max_length=HASH_HEX)
    created_at = models.DateTimeField(db_index=True)
    labels = models.PositiveIntegerField()
    messages = models.PositiveBigIntegerField()
    verified = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["-created_at", "-messages"]
        verbose_name = "manifest"

    def __str__(self) -> str:
        return f"{self.manifest_id[:12]} of {self.created_at:%Y-%m-%d %H:%M:%S}"


class Finding(models.Model):
    """Something that must not be: recorded, owned, acknowledged with a reason."""

    class Severity(models.TextChoices):
        CRITICAL = "critical"
        WARNING = "warning"

    code = models.CharField(max_length=32)
    severity = models.CharField(max_length=16, choices=Severity)
    object = models.CharField(max_length=200)
    detail = models.TextField(blank=True)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    acknowledged_by = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-last_seen"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["code", "object"], name="one_finding_per_object"),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.object}"


class IndexState(models.Model):
    """One row: how the last look at the hub went."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    checked_at = models.DateTimeField(null=True)
    reached_at = models.DateTimeField(null=True)
    hub_pk = models.CharField(max_length=HASH_HEX, blank=True)
    hub_id = models.CharField(max_length=HASH_HEX, blank=True)
    problem = models.CharField(max_length=300, blank=True)

    class Meta:
        verbose_name_plural = "index state"

    def __str__(self) -> str:
        return f"index as of {self.checked_at}"
