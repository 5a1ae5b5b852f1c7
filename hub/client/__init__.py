"""The hub's client library: author, submit, follow and verify against a pinned key [SSOT 9]."""

from hub.client.heads import EquivocationError
from hub.client.hubclient import HubClient
from hub.client.outbox import Draft
from hub.client.pool import KeyPool, RotatingProducer
from hub.client.producer import Producer, RefusedError, Submitted

__all__ = [
    "Draft",
    "EquivocationError",
    "HubClient",
    "KeyPool",
    "Producer",
    "RefusedError",
    "RotatingProducer",
    "Submitted",
]
