"""The hub's client library: author, submit, follow and verify against a pinned key [SSOT 9]."""

from hub.client.author import Item, Placed
from hub.client.draft import Draft
from hub.client.heads import EquivocationError
from hub.client.hubclient import HubClient
from hub.client.keyed import KeyedState, Mark
from hub.client.outbox import Entry
from hub.client.outbox_reader import OutboxReader
from hub.client.outcome import RefusedError, Submitted
from hub.client.pool import KeyPool, RotatingProducer
from hub.client.producer import Producer

__all__ = [
    "Draft",
    "Entry",
    "EquivocationError",
    "HubClient",
    "Item",
    "KeyPool",
    "KeyedState",
    "Mark",
    "OutboxReader",
    "Placed",
    "Producer",
    "RefusedError",
    "RotatingProducer",
    "Submitted",
]
