"""Which acts the admin pages offer, and how they speak of them [experience 1.1, 1.6]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hub.models import Finding
from recorder import admin_account_forms as account_forms
from recorder import admin_forms as forms
from recorder.admin_forms import ActForm
from recorder.models import ApiToken


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminVerb:
    """One act as people see it: its button, what it will do, what it asks."""

    verb: str
    button: str
    says: str  # what will happen, said before it does
    form: type[ActForm] = forms.NothingMore
    is_destructive: bool = False
    kind: str = ""  # tells two pages of one verb apart

    @property
    def page(self) -> str:
        """The name of its page."""
        return f"{self.verb}.{self.kind}" if self.kind else self.verb

    @property
    def has_fields(self) -> bool:
        """Whether anything is asked before the confirmation."""
        return bool(self.form.base_fields) or self.form.has_more_fields


_ALL: Final = (
    AdminVerb(
        verb="stream.create",
        button="Create a stream",
        says="A stream is made with its own key, and the event types named go there.",
        form=forms.CreateStream,
    ),
    AdminVerb(
        verb="stream.map",
        button="Map event types",
        says="Events of these types go to this stream from now on.",
        form=forms.MapTypes,
    ),
    AdminVerb(
        verb="stream.migrate",
        button="Rename",
        says="Every event type of the stream moves to the new name; what was recorded stays here, "
        "for ever, under the old one.",
        form=forms.Rename,
        is_destructive=True,
        kind="rename",
    ),
    AdminVerb(
        verb="stream.migrate",
        button="Split",
        says="The event types that are given another stream go there from now on; what was "
        "recorded stays here, for ever.",
        form=forms.Split,
        is_destructive=True,
        kind="split",
    ),
    AdminVerb(
        verb="stream.class",
        button="Change class, sensitivity or bound",
        says="The stream keeps its events; what is recorded from now on follows the new rule.",
        form=forms.ChangeClass,
    ),
    AdminVerb(
        verb="stream.rotate_key",
        button="Rotate the key",
        says="The stream gets a new key. The gateway seals to it from now on, a service with a "
        "connection file when that is updated; what is sealed to older keys stays readable to "
        "those who hold them.",
        form=forms.OnStream,
    ),
    AdminVerb(
        verb="retention.set",
        button="Set retention",
        says="Payloads of the stream are kept for at least this long.",
        form=forms.SetRetention,
    ),
    AdminVerb(
        verb="retention.prune",
        button="Prune payloads",
        says="The payloads before this sequence are deleted and cannot be brought back. Receipts "
        "and proofs stay.",
        form=forms.Prune,
        is_destructive=True,
    ),
    AdminVerb(
        verb="lake.seal",
        button="Seal segments",
        says="The worker merges live segments of the lake and records the hash of each file.",
        form=forms.Seal,
    ),
    AdminVerb(
        verb="lake.audit",
        button="Audit",
        says="The worker opens the messages again, compares every field with the lake, and records "
        "the verdict.",
        form=forms.Audit,
    ),
    AdminVerb(
        verb="producer.add",
        button="Add a producer",
        says="A service gets a key and a capability to append to these streams only.",
        form=forms.AddProducer,
    ),
    AdminVerb(
        verb="producer.rotate",
        button="Rotate the key",
        says="The producer gets a new key and a new principal_id; an event links old and new.",
        form=forms.RotateProducer,
    ),
    AdminVerb(
        verb="producer.revoke",
        button="Revoke",
        says="The hub refuses this producer's key from now on, and its API tokens end. A new "
        "producer is needed to go on.",
        form=forms.OnName,
        is_destructive=True,
    ),
    AdminVerb(
        verb="reader.add",
        button="Add a reader",
        says="The secrets of these streams are wrapped to the reader's key.",
        form=forms.AddReader,
    ),
    AdminVerb(
        verb="reader.revoke",
        button="Revoke",
        says="Nothing new is wrapped to this reader. What it was given it keeps.",
        form=forms.RevokeReader,
        is_destructive=True,
    ),
    AdminVerb(
        verb="token.create",
        button="Create a token",
        says="A bearer token is made and shown once; only its hash is kept.",
        form=forms.CreateToken,
    ),
    AdminVerb(
        verb="token.revoke",
        button="Revoke",
        says="Whoever uses this token is refused from now on.",
        form=forms.OnToken,
        is_destructive=True,
    ),
    AdminVerb(
        verb="account.create",
        button="Create an account",
        says="A person gets an account and a first password, which is shown once.",
        form=account_forms.CreateAccount,
    ),
    AdminVerb(
        verb="account.role",
        button="Change role",
        says="From now on the account may do this and nothing else.",
        form=account_forms.ChangeRole,
        is_destructive=True,
    ),
    AdminVerb(
        verb="account.reset_password",
        button="Reset the password",
        says="The account gets a new password, which is shown once; the old one and every session "
        "end.",
        form=account_forms.ResetPassword,
        is_destructive=True,
    ),
    AdminVerb(
        verb="account.deactivate",
        button="Deactivate",
        says="Nobody logs in to this account any more, and its sessions end. Its name stays, for "
        "the log has it.",
        form=forms.OnName,
        is_destructive=True,
    ),
    AdminVerb(
        verb="account.activate",
        button="Activate",
        says="The account may be logged in to again, with the password it had.",
        form=forms.OnName,
    ),
    AdminVerb(
        verb="finding.acknowledge",
        button="Acknowledge",
        says="You say that you know of it and why it may rest. The finding stays; if it is still "
        "there, it still counts.",
        form=forms.OnFinding,
    ),
    AdminVerb(
        verb="checkpoint.now",
        button="Checkpoint now",
        says="The hub signs a manifest of every stream as it stands now.",
    ),
)
ADMIN_VERBS: Final = {one.page: one for one in _ALL}


def name_of(verb: AdminVerb, on: str) -> str:
    """How people call what an act is about; they type it before it is destroyed."""
    if verb.form is forms.OnFinding:
        named = Finding.objects.filter(pk=int(on)).first() if on.isdecimal() else None
        return on if named is None else str(named)
    if verb.form is not forms.OnToken:
        return on
    found = ApiToken.objects.filter(pk=on).values_list("name", flat=True).first()
    return found or on
