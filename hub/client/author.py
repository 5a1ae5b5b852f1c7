"""The one place that gives out client_seqs of a key: enqueue, rebuild, withdraw [RESYNC0].

They exclude each other, so that a thread may enqueue while another sends and finds that the hub
counts differently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hub import authoring
from hub.client.draft import Draft
from hub.client.keyed import KeyedState, KeyNote, Mark, check_key
from hub.client.outbox import Entry, Outbox
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.types import AuthRef, ClientSeq, Hash, Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A draft to enqueue, and the key under which that happens once, whoever asks again."""

    draft: Draft
    key: str | None = None
    content: bytes = b""  # what the key stands for; kept as its hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What became of an Item: its own new entry, what its key knows, or both."""

    entry: Entry | None  # None where the key was known
    state: KeyedState | None  # None where there is no key


Made = tuple[Draft, authoring.Authored]


class Author:
    """Builds MSGs with one key, and numbers them."""

    def __init__(
        self,
        key: SigningKey,
        outbox: Outbox,
        *,
        auth_ref: AuthRef | None,
        now: Callable[[], float],
    ) -> None:
        self._key = key
        self._outbox = outbox
        self.auth_ref = auth_ref
        self._now = now
        self._numbering = threading.RLock()

    def enqueue(self, items: Sequence[Item], *, mark: Mark | None = None) -> list[Placed]:
        """Author what is new and make it durable in one step, together with `mark`."""
        for item in items:
            if item.key is not None:
                check_key(item.key)
        with self._numbering:
            known = self._outbox.find_keys([item.key for item in items if item.key is not None])
            # Of two items with one key the first is authored, the second finds it.
            firsts: dict[str, Item] = {}
            for item in items:
                if item.key is not None and item.key not in known:
                    firsts.setdefault(item.key, item)
            fresh = [one for one in items if one.key is None or firsts.get(one.key) is one]
            notes = [self._note(item) for item in fresh]
            made = self._author_all([item.draft for item in fresh])
            entries = self._outbox.store(made, keys=notes, mark=mark) if made or mark else []
        own = zip(fresh, entries, notes, strict=True)
        return _places(items, known, {id(item): (entry, note) for item, entry, note in own})

    def _note(self, item: Item) -> KeyNote | None:
        if item.key is None:
            return None
        content_hash = Hash(h(item.content))
        return KeyNote(key=item.key, content_hash=content_hash, created_at=int(self._now()))

    def _author_all(self, drafts: Sequence[Draft]) -> list[Made]:
        numbered: list[authoring.Numbered] = []
        places: dict[Label, tuple[int, int]] = {}  # the next client_seq, and prev_ack
        for draft in drafts:
            label = draft.label
            if label not in places:
                cursor = self._outbox.cursor(label)
                places[label] = cursor.next_seq, cursor.prev_ack
            client_seq, prev_ack = places[label]
            numbered.append(self._numbered(draft, client_seq, prev_ack))
            places[label] = client_seq + 1, prev_ack
        return list(zip(drafts, authoring.author_all(self._key, numbered), strict=True))

    def _numbered(self, draft: Draft, client_seq: int, prev_ack: int) -> authoring.Numbered:
        header, auth_ref = draft.header, self.auth_ref
        if header.cap_ref is not None:
            header = replace(header, cap_ref=auth_ref)
        return authoring.Numbered(
            draft.label,
            ClientSeq(client_seq),
            prev_ack,
            auth_ref,
            draft.reader_pk,
            header,
            draft.body,
            draft.attachments,
            draft.profile,
        )

    def rebuild(self, entry: Entry, client_seq: int, prev_ack: int) -> None:
        """Author an entry and all behind it anew, from this client_seq on."""
        with self._numbering:
            made = self._author_again(self._outbox.behind(entry), client_seq, prev_ack)
            self._outbox.rebuild(made, next_seq=client_seq + len(made))

    def withdraw(self, entry: Entry) -> None:
        """Take an entry out; those behind it are authored anew and move up by one."""
        with self._numbering:
            behind = self._outbox.behind(entry)[1:]
            prev_ack = self._outbox.cursor(entry.label).prev_ack
            self._outbox.withdraw(entry, self._author_again(behind, entry.client_seq, prev_ack))

    def _author_again(
        self, entries: Sequence[Entry], client_seq: int, prev_ack: int
    ) -> list[tuple[Entry, authoring.Authored]]:
        numbered = [
            self._numbered(self._outbox.draft(entry), client_seq + place, prev_ack)
            for place, entry in enumerate(entries)
        ]
        return list(zip(entries, authoring.author_all(self._key, numbered), strict=True))


def _places(
    items: Sequence[Item],
    known: dict[str, KeyedState],
    own: dict[int, tuple[Entry, KeyNote | None]],
) -> list[Placed]:
    """What became of each item; `own` are the entries of those that were authored."""
    placed: list[Placed] = []
    for item in items:
        if id(item) not in own:
            assert item.key is not None
            placed.append(Placed(entry=None, state=known[item.key]))
            continue
        entry, note = own[id(item)]
        state = None
        if note is not None:
            state = KeyedState(
                key=note.key,
                content_hash=note.content_hash,
                entry_id=entry.id,
                receipt=None,
                created_at=note.created_at,
            )
            known[note.key] = state
            state = replace(state, is_new=True)
        placed.append(Placed(entry=entry, state=state))
    return placed
