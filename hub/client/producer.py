"""Author and submit under the outbox rule: every event once, whatever gets lost [RESYNC0].

A MSG is stored before it is first sent, and the same bytes are sent again after any doubt. E.DUP
means "already there": its receipt is fetched. After any other refusal the hub is first asked for
the receipt of every leaf this entry ever had; only when it has none is the MSG authored anew, with
all that stand behind it, under the same client_seqs and with fresh HPKE contexts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Self

from hub.client.author import Author, Item, Placed
from hub.client.draft import Draft
from hub.client.keyed import KeyedState, Mark
from hub.client.outbox import Entry, Outbox
from hub.client.outcome import AUTHORITY, TRANSIENT, RefusedError, Submitted
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError
from hub.limits import DEFAULT as LIMITS
from hub.types import AuthRef, ClientId, Label, LeafHash, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt

if TYPE_CHECKING:
    from hub.client.hubclient import HubClient

_SEQ_DETAIL: Final = re.compile(r"next=(\d{1,20}) ack=(\d{1,20}) head=(\d{1,20})", re.ASCII)
_REBUILDS_MAX: Final = 8
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 30.0


OnSettled = Callable[[Sequence[tuple[Entry, Submitted]]], None]


class Producer:
    """One signing key at work; made by `HubClient.producer`, one process per key at a time.

    One thread may enqueue while another sends.
    """

    def __init__(
        self,
        client: HubClient,
        key: SigningKey,
        outbox: Outbox,
        *,
        auth_ref: AuthRef | None,
        retries_max: int = 6,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._key = key
        self._outbox = outbox
        self._author = Author(key, outbox, auth_ref=auth_ref, now=now)
        self.on_settled: OnSettled | None = None  # hears of receipts, in the sending thread
        self._retries_max = retries_max
        self._sleep = sleep
        self._items_max = LIMITS.batch_items_max
        self._awaited: dict[int, Submitted | None] = {}  # entries whose caller waits here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Save what was verified and give the key up, the latter also when a disk is full."""
        try:
            self._client.heads.save()
        finally:
            self._outbox.close()

    @property
    def auth_ref(self) -> AuthRef | None:
        """The authority to author with; assign a renewed one at any time."""
        return self._author.auth_ref

    @auth_ref.setter
    def auth_ref(self, auth_ref: AuthRef | None) -> None:
        self._author.auth_ref = auth_ref

    @property
    def client_id(self) -> ClientId:
        """The key's public half."""
        return ClientId(self._key.public)

    def pending(self) -> int:
        """How many messages have no receipt yet."""
        return self._outbox.count()

    def submit(self, draft: Draft) -> Receipt:
        """One message: stored, sent, and its verified RECEIPT."""
        return self.submit_all([draft])[0].receipt

    def submit_batch(self, drafts: Sequence[Draft], *, pipelined: bool = False) -> list[Receipt]:
        """Many messages; `pipelined` sends single submits back to back instead of one sequence.

        Raises RefusedError at the first entry that the hub will not take; earlier ones are in.
        """
        return [one.receipt for one in self.submit_all(drafts, pipelined=pipelined)]

    def submit_all(self, drafts: Sequence[Draft], *, pipelined: bool = False) -> list[Submitted]:
        """As `submit_batch`, with the bytes that were committed, which are evidence too."""
        ids = self.enqueue(drafts)
        self._awaited = dict.fromkeys(ids)
        try:
            self.flush(pipelined=pipelined)
            found = [self._awaited[entry_id] for entry_id in ids]
        finally:
            self._awaited = {}
        return [one for one in found if one is not None]

    def enqueue(self, drafts: Sequence[Draft]) -> list[int]:
        """Author messages and make them durable without sending; returns their outbox ids."""
        placed = self.enqueue_items([Item(draft=draft) for draft in drafts])
        return [one.entry.id for one in placed if one.entry is not None]

    def enqueue_keyed(self, key: str, draft: Draft, content: bytes = b"") -> KeyedState:
        """Enqueue under a key; one that is known, pending or settled, is never enqueued again.

        The caller judges with `is_about` whether a known key was used for the same content.
        """
        (placed,) = self.enqueue_items([Item(draft=draft, key=key, content=content)])
        assert placed.state is not None
        return placed.state

    def enqueue_items(self, items: Sequence[Item], *, mark: Mark | None = None) -> list[Placed]:
        """Author what is new and make it durable in one step, together with `mark`."""
        return self._author.enqueue(items, mark=mark)

    def keyed(self, key: str) -> KeyedState | None:
        """What has become of a key; None where it was never used, refused or forgotten."""
        return self._outbox.find_keys([key]).get(key)

    def key_of(self, entry: Entry) -> str | None:
        """The key under which a pending entry was enqueued."""
        return self._outbox.key_of(entry)

    def draft(self, entry: Entry) -> Draft:
        """What a pending entry was authored from."""
        return self._outbox.draft(entry)

    def forget_keys(self, before: int, prefix: str = "") -> int:
        """Drop settled keys of this beginning made before a time (seconds since 1970)."""
        return self._outbox.forget_keys(before, prefix)

    def marks(self) -> dict[str, int]:
        """How far each source has been taken over into the outbox."""
        return self._outbox.marks()

    def drop_mark(self, source: str) -> None:
        """Forget a source that is durably gone."""
        self._outbox.drop_mark(source)

    def rest(self) -> None:
        """Nothing is being sent: remove what is settled, so that others see it, and its room."""
        self._outbox.rest()

    def abandon(self) -> None:
        """In a forked child: let go of what the parent holds."""
        self._outbox.abandon()

    def flush(self, *, pipelined: bool = False) -> None:
        """Send until nothing is pending; bounded retries, then the refusal is raised."""
        tries = 0
        alone = False
        while True:
            entries = self._next_entries(alone=alone)
            if not entries:
                return
            refused = self._send(entries, pipelined=pipelined)
            alone = False
            if refused is None:
                tries = 0
                continue
            entry, refusal = refused
            if refusal.code in TRANSIENT:
                tries = tries + 1 if entry.id == entries[0].id else 1
                if tries > self._retries_max:
                    raise RefusedError(refusal, entry) from refusal
                self._sleep(_pause(tries, refusal))
            elif refusal.code is ErrorCode.SEQ and len(entries) > 1:
                # Items behind it may have been taken since, so its detail may be out of date.
                alone = True
            else:
                tries = self._try_to_resolve(entry, refusal, tries)

    def _try_to_resolve(self, entry: Entry, refusal: VeenError, tries: int) -> int:
        """Resolve a refusal; the connection may break here too, which counts as a try."""
        try:
            self._resolve(entry, refusal)
        except VeenError as broken:
            if broken.code not in TRANSIENT or tries >= self._retries_max:
                raise
            self._sleep(_pause(tries + 1, broken))
            return tries + 1
        return tries

    def _next_entries(self, *, alone: bool) -> list[Entry]:
        """What to send now: on a label where this key has no receipt yet, one entry at a time.

        Items of a batch stand or fall by themselves. Had this key spoken there before and lost its
        state, a later item could fit the hub's next client_seq and overtake the earlier ones.
        """
        entries = self._outbox.pending(
            items_max=1 if alone else self._items_max,
            bytes_max=LIMITS.batch_bytes_max // 2,
        )
        seen: dict[Label, bool] = {}  # whether more than one entry of the label may go
        chosen = []
        for entry in entries:
            if entry.label not in seen:
                seen[entry.label] = self.is_known(entry.label)
                chosen.append(entry)
            elif seen[entry.label]:
                chosen.append(entry)
        return chosen

    def _send(self, entries: Sequence[Entry], *, pipelined: bool) -> tuple[Entry, VeenError] | None:
        """Send, settle what got a receipt, return the first refusal."""
        ready, blocked = self._with_attachments(entries)
        messages = [entry.msg_bytes for entry in ready]
        send = self._client.send_pipelined if pipelined else self._client.send_batch
        answers: list[Receipt | VeenError] = []
        try:
            # All answers are read before any is judged: judging may need the connection itself.
            answers.extend(send(messages))
        except VeenError as broken:
            if broken.code not in TRANSIENT:
                raise
            blocked = (entries[0], broken)
            # A line that breaks often lets small batches through where a large one never passes.
            self._items_max = max(1, self._items_max // 4)
        else:
            self._items_max = min(2 * self._items_max, LIMITS.batch_items_max)
        return self.settle(ready, answers) or blocked

    def settle(
        self, entries: Sequence[Entry], answers: Sequence[Receipt | VeenError]
    ) -> tuple[Entry, VeenError] | None:
        """Check the answers to these entries, settle what got a receipt, return the first refusal.

        An answer that proves a lie of the hub raises, after the honest ones before it are settled.
        """
        refused: tuple[Entry, VeenError] | None = None
        done: list[tuple[Entry, Submitted]] = []
        receipts = [answer for answer in answers if isinstance(answer, Receipt)]
        signer = self._client.chain.signed_by_current(receipts)
        if signer is not None and self._is_plain_row(entries, receipts):
            rows = zip(entries, receipts, strict=True)
            self._settle([(e, Submitted(receipt=r, msg_bytes=e.msg_bytes)) for e, r in rows])
            return None
        try:
            for entry, answer in zip(entries, answers, strict=False):
                outcome = self._judge(entry, answer, signer)
                if isinstance(outcome, Submitted):
                    done.append((entry, outcome))
                elif refused is None:
                    refused = (entry, outcome)
        finally:
            self._settle(done)
        return refused

    def _is_plain_row(self, entries: Sequence[Entry], receipts: Sequence[Receipt]) -> bool:
        """Whether each entry has its RECEIPT and they extend the log without a gap.

        Where it is not so nothing is remembered, and `_judge` says of each answer what it is.
        """
        if not receipts or len(receipts) != len(entries):
            return False
        for entry, receipt in zip(entries, receipts, strict=True):
            if receipt.leaf_hash != entry.leaf_hash or receipt.label != entry.label:
                return False
        return self._client.heads.observe_row(receipts)

    def is_known(self, label: Label) -> bool:
        """Whether this key has a receipt on a label, so that entries may go there in rows."""
        return self._outbox.cursor(label).settled_seq > 0

    @property
    def first_id(self) -> int:
        """Entries with smaller ids are those of an earlier process."""
        return self._outbox.first_id

    def _judge(
        self, entry: Entry, answer: Receipt | VeenError, signer: PublicKey | None
    ) -> Submitted | VeenError:
        """The verified receipt behind an answer, or the refusal that it is."""
        if isinstance(answer, Receipt):
            self._client.check_own_receipt(answer, entry.label, entry.leaf_hash, signer)
            return Submitted(receipt=answer, msg_bytes=entry.msg_bytes)
        if answer.code is not ErrorCode.DUP:
            return answer
        try:
            return self._fetch(entry, entry.leaf_hash, entry.msg_bytes)
        except VeenError as broken:
            if broken.code not in TRANSIENT:
                raise
            return broken

    def _with_attachments(
        self, entries: Sequence[Entry]
    ) -> tuple[Sequence[Entry], tuple[Entry, VeenError] | None]:
        """The entries whose attachments the hub holds, up to the first that it would not take."""
        for place, entry in enumerate(entries):
            try:
                for one in self._outbox.unstored_attachments(entry):
                    self._client.put_attachment(
                        one.sealed, key=self._key, auth_ref=self._authority_of(entry)
                    )
                    self._outbox.mark_attachment(entry, one.coid)
            except VeenError as refusal:
                return entries[:place], (entry, refusal)
        return entries, None

    def _fetch(self, entry: Entry, leaf_hash: LeafHash, msg_bytes: bytes) -> Submitted:
        receipt = self._client.receipt_by_leaf(leaf_hash)
        self._client.check_own_receipt(receipt, entry.label, leaf_hash)
        return Submitted(receipt=receipt, msg_bytes=msg_bytes)

    def _settle(self, done: Sequence[tuple[Entry, Submitted]]) -> None:
        if done:
            self._outbox.settle([(entry, found.receipt) for entry, found in done])
            for entry, found in done:
                if entry.id in self._awaited:
                    self._awaited[entry.id] = found
            if self.on_settled is not None:
                self.on_settled(done)

    def _resolve(self, entry: Entry, refusal: VeenError) -> None:
        """After a refusal: find the receipt of any leaf it ever had, else author anew or raise."""
        for leaf_hash, msg_bytes in self._outbox.versions(entry):
            try:
                found = self._fetch(entry, leaf_hash, msg_bytes)
            except VeenError as absent:
                if absent.code is not ErrorCode.NOTFOUND:
                    raise
                continue
            self._settle([(entry, found)])
            return
        if entry.rebuilds >= _REBUILDS_MAX:
            raise RefusedError(refusal, entry) from refusal
        if refusal.code is ErrorCode.SEQ:
            self._renumber(entry, refusal)
        elif refusal.code in AUTHORITY and self._authority_of(entry) != self.auth_ref:
            cursor = self._outbox.cursor(entry.label)
            self._author.rebuild(entry, entry.client_seq, cursor.prev_ack)
        else:
            raise RefusedError(refusal, entry) from refusal

    def _authority_of(self, entry: Entry) -> AuthRef | None:
        return Msg.decode(entry.msg_bytes).auth_ref

    def _renumber(self, entry: Entry, refusal: VeenError) -> None:
        """Go on from the hub's `next= ack= head=`, unless that contradicts a receipt we hold.

        Taking another client_seq is safe here: the hub has no receipt for any leaf of this entry,
        and its own slot is either still free (and keeps its number) or taken by another leaf.
        """
        found = _SEQ_DETAIL.fullmatch(refusal.detail)
        if found is None:
            raise RefusedError(refusal, entry) from refusal
        next_seq, ack, head = (int(number) for number in found.groups())
        cursor = self._outbox.cursor(entry.label)
        if next_seq <= cursor.settled_seq:
            detail = (
                f"the hub asks for client_seq {next_seq}, but a receipt for {cursor.settled_seq} "
                "is held: its log went back"
            )
            raise ProofError(detail, ErrorCode.EQUIVOCATION) from refusal
        if head < cursor.prev_ack:
            detail = f"the hub's head {head} is behind the receipt held for {cursor.prev_ack}"
            raise ProofError(detail, ErrorCode.EQUIVOCATION) from refusal
        self._author.rebuild(entry, next_seq, max(ack, cursor.prev_ack))

    def withdraw(self, entry: Entry) -> None:
        """Take back an entry that the hub refused and has no receipt for."""
        for leaf_hash, _ in self._outbox.versions(entry):
            try:
                self._client.receipt_by_leaf(leaf_hash)
            except VeenError as absent:
                if absent.code is ErrorCode.NOTFOUND:
                    continue
                raise
            raise VeenError(ErrorCode.DUP, "the hub committed this message; flush settles it")
        self._author.withdraw(entry)


def _pause(tries: int, refusal: VeenError) -> float:
    """Retry-After where the hub gives one, else doubling from a tenth of a second."""
    if refusal.retry_after_s is not None:
        return float(min(refusal.retry_after_s, _PAUSE_MAX_S))
    return min(_PAUSE_FIRST_S * 2.0 ** (tries - 1), _PAUSE_MAX_S)
