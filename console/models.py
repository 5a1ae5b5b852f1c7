"""Failed logins, kept only as long as they slow down a guesser [experience 2.1: lockout]."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class LoginFailure(models.Model):
    """One failed attempt; the name is hashed, because people type passwords into that field."""

    name_hash = models.CharField(max_length=64)
    address = models.GenericIPAddressField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["name_hash", "at"])]

    def __str__(self) -> str:
        return f"failed login from {self.address} at {self.at}"
