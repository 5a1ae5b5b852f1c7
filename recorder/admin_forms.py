"""Forms of administrative acts: what is asked, and the arguments it becomes [experience 1.1].

They only read what people type; whether it may be done, the verb itself judges, as for the API.
"""

from __future__ import annotations

from typing import Any, Final

from django import forms

from hub.canonical_json import Value
from recorder.acts.authority import ADMIN_READER
from recorder.models import ApiToken, EventType, Producer, Reader, Stream
from recorder.streams import (
    EVENT_BYTES_LIMIT,
    EVENT_BYTES_MAX_DEFAULT,
    LONG_TERM,
    Sensitivity,
    is_reserved,
)

REASON_CHARACTERS_MIN: Final = 3
REASON_CHARACTERS_MAX: Final = 1000
_LINES: Final = "One in each line."


class Lines(forms.CharField):
    """Several texts, one in each line."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 60})

    def clean(self, value: Any) -> list[str]:  # noqa: ANN401 - Django's signature
        """The lines without blanks."""
        return [line.strip() for line in str(super().clean(value)).splitlines() if line.strip()]


def _streams() -> list[tuple[str, str]]:
    return [(name, name) for name in Stream.objects.values_list("name", flat=True)]


class StreamChoice(forms.MultipleChoiceField):
    """Some of the streams there are."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - a field's options
        super().__init__(choices=_streams, **options)


_ARGUMENTS: Final = {"label_class": "class"}  # what a class of Python cannot call so
FIELDS: Final = {argument: name for name, argument in _ARGUMENTS.items()}


def _label_class(**options: Any) -> forms.CharField:  # noqa: ANN401 - a field's options
    return forms.CharField(max_length=32, label="Label class", **options)


class ActForm(forms.Form):
    """The fields of one verb; `on` is the object that the act is about."""

    on_field: str | None = None  # the argument that names it
    has_more_fields = False  # fields that depend on the object

    def __init__(self, *args: Any, on: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        self.on = on
        super().__init__(*args, **kwargs)

    def args(self) -> dict[str, Value]:
        """The arguments of the act; what was left empty is absent."""
        found: dict[str, Value] = {
            _ARGUMENTS.get(name, name): value
            for name, value in self.cleaned_data.items()
            if value not in ("", None, [])
        }
        if self.on_field is not None:
            found[self.on_field] = self.on
        return found

    def planned_args(self) -> dict[str, Value]:
        """The same for a look ahead, where what is made only with the act stands as a blank."""
        return self.args()


class NothingMore(ActForm):
    """An act that needs no more than to be asked for."""


class OnStream(ActForm):
    on_field = "stream"


class OnName(ActForm):
    on_field = "name"


class OnFinding(ActForm):
    on_field = "finding_id"

    def args(self) -> dict[str, Value]:
        """By its number; what is none becomes one that no finding has."""
        return {"finding_id": int(self.on) if self.on.isdecimal() else 0}


class OnToken(ActForm):
    on_field = "token_id"


class CreateStream(ActForm):
    name = forms.CharField(
        max_length=128,
        widget=forms.TextInput(attrs={"size": 60}),
        help_text="record/app/…, record/security/… or record/infrastructure/…",
    )
    label_class = _label_class(
        initial="log", help_text="Which retention policy counts; the hub sees it, blind as it is."
    )
    sensitivity = forms.ChoiceField(
        choices=[(one, one) for one in Sensitivity],
        initial=Sensitivity.MEDIUM,
        help_text="Queries on streams of high sensitivity are audited one by one.",
    )
    event_types = Lines(required=False, help_text=f"What goes to this stream. {_LINES}")
    event_bytes_max = forms.IntegerField(
        min_value=1,
        max_value=EVENT_BYTES_LIMIT,
        initial=EVENT_BYTES_MAX_DEFAULT,
        label="Largest event (bytes)",
    )
    retention_hint = forms.IntegerField(
        min_value=LONG_TERM,
        initial=LONG_TERM,
        label="Keep for (seconds)",
        help_text=f"long_term is {LONG_TERM}; nothing of a record stream is dropped before.",
    )
    readers = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=lambda: [
            (name, name)
            for name in Reader.objects.filter(revoked_at__isnull=True)
            .exclude(name=ADMIN_READER)
            .values_list("name", flat=True)
        ],
        help_text="Beside the recorder's administrator, who always reads.",
    )


class MapTypes(OnStream):
    event_types = Lines(help_text=f"New event types of this stream. {_LINES}")


class Rename(ActForm):
    on_field = "from"
    to = forms.CharField(
        max_length=128, label="New name", help_text="It is made when it does not exist."
    )

    def args(self) -> dict[str, Value]:
        """A migration of the kind rename."""
        return {"kind": "rename", **super().args()}


class Split(ActForm):
    """One field for each event type of the stream: where it goes from now on."""

    on_field = "from"
    has_more_fields = True

    def __init__(self, *args: Any, on: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, on=on, **kwargs)
        targets = [(name, name) for name, _ in _streams() if name != on and not is_reserved(name)]
        mapped = EventType.objects.filter(stream=on).order_by("event_type")
        for event_type in mapped.values_list("event_type", flat=True):
            self.fields[f"move-{event_type}"] = forms.ChoiceField(
                required=False, choices=[("", "stays here"), *targets], label=event_type
            )

    def clean(self) -> dict[str, Any]:
        """At least one goes elsewhere."""
        if not self.fields:
            raise forms.ValidationError("The stream has no event types to move.")
        if not self.errors and not any(self.cleaned_data.values()):
            raise forms.ValidationError("Every event type stays here: choose where one goes.")
        return self.cleaned_data

    def args(self) -> dict[str, Value]:
        """A migration of the kind split."""
        moves: dict[str, Value] = {}
        for name, target in sorted(self.cleaned_data.items()):
            if target:
                types = moves.setdefault(target, [])
                assert isinstance(types, list)
                types.append(name.removeprefix("move-"))
        return {"kind": "split", "from": self.on, "moves": moves}


class ChangeClass(OnStream):
    label_class = _label_class(required=False, help_text="Empty means as it is.")
    sensitivity = forms.ChoiceField(
        required=False, choices=[("", "as it is"), *((one, one) for one in Sensitivity)]
    )
    event_bytes_max = forms.IntegerField(
        required=False, min_value=1, max_value=EVENT_BYTES_LIMIT, label="Largest event (bytes)"
    )


class SetRetention(OnStream):
    retention_hint = forms.IntegerField(
        min_value=0,
        label="Keep for (seconds)",
        help_text="long_term is 315360000; a hint is never shortened.",
    )


class Prune(OnStream):
    before_seq = forms.IntegerField(
        min_value=2,
        label="Drop payloads before sequence",
        help_text="Receipts and proofs stay. Payloads whose time is not over are refused.",
    )


class Seal(ActForm):
    streams = StreamChoice(required=False, help_text="None means all.")


class Audit(ActForm):
    streams = StreamChoice(required=False, help_text="None means all.")
    from_hub = forms.BooleanField(
        required=False, label="From the hub", help_text="Read the log again, not the lake's copy."
    )


class SealOne(ActForm):
    def args(self) -> dict[str, Value]:
        """Only the stream it is about."""
        return {"streams": [self.on]}


class AddProducer(ActForm):
    name = forms.CharField(max_length=128, help_text="One name for each emitting service.")
    streams = StreamChoice(help_text="Where it may append, and nowhere else.")
    held = forms.ChoiceField(
        choices=[
            (Producer.Held.GATEWAY.value, "by the gateway; the service uses an API token"),
            (Producer.Held.FILE.value, "by the service itself; give its public key"),
        ],
        label="Its key is held",
    )
    principal = forms.CharField(
        required=False, max_length=64, label="Public key", help_text="64 hex digits."
    )
    rate_per_s = forms.IntegerField(required=False, min_value=1, label="Events a second, at most")


class RotateProducer(OnName):
    principal = forms.CharField(
        required=False,
        max_length=64,
        label="New public key",
        help_text="Only for a producer that holds its own key.",
    )
    keep_old = forms.BooleanField(required=False, label="Keep the old key in force")


class AddReader(ActForm):
    name = forms.CharField(max_length=128)
    dh_pk = forms.CharField(max_length=64, label="X25519 public key", help_text="64 hex digits.")
    streams = StreamChoice(required=False)
    all = forms.BooleanField(required=False, label="All streams there are now")


class RevokeReader(OnName):
    keep_keys = forms.BooleanField(
        required=False,
        label="Keep the streams' keys",
        help_text="Otherwise each stream that the reader could open gets a new key.",
    )


class CreateToken(ActForm):
    role = forms.ChoiceField(
        choices=[
            (ApiToken.Role.READER.value, "reader: replays and queries"),
            (ApiToken.Role.PRODUCER.value, "producer: records through the gateway"),
            (ApiToken.Role.ADMIN.value, "administrator: administers and reads, never records"),
        ]
    )
    name = forms.CharField(max_length=128, help_text="Whose it is; acts and queries will say so.")
    producer = forms.ChoiceField(
        required=False,
        choices=lambda: [
            ("", "—"),
            *(
                (name, name)
                for name in Producer.objects.filter(
                    held=Producer.Held.GATEWAY, ended_at__isnull=True
                ).values_list("name", flat=True)
            ),
        ],
        help_text="Of a producer's token only.",
    )
    streams = StreamChoice(required=False, help_text="Of a reader's token only.")
    all = forms.BooleanField(required=False, label="All streams", help_text="Of a reader only.")

    def planned_args(self) -> dict[str, Value]:
        """The hash is that of a text nobody has seen yet."""
        return {**self.args(), "sha256": "00" * 32}


class ConfirmForm(forms.Form):
    """The last question: why; and for what cannot be undone, the name and the password again."""

    reason = forms.CharField(
        min_length=REASON_CHARACTERS_MIN,
        max_length=REASON_CHARACTERS_MAX,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
        help_text="Recorded with the act, for ever.",
    )
    typed = forms.CharField(label="Type the name", widget=forms.TextInput(attrs={"size": 50}))
    password = forms.CharField(
        label="Your password", widget=forms.PasswordInput(attrs={"autocomplete": "off"})
    )

    def __init__(self, *args: Any, name: str = "", is_destructive: bool, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._name = name
        if is_destructive:
            self.fields["typed"].help_text = f"Exactly: {name}"
        else:
            del self.fields["typed"]
            del self.fields["password"]

    def clean_reason(self) -> str:
        """At least a few characters that are not blanks."""
        reason: str = self.cleaned_data["reason"].strip()
        if len(reason) < REASON_CHARACTERS_MIN:
            raise forms.ValidationError("Say why, in a few words.")
        return reason

    def clean_typed(self) -> str:
        """The very name."""
        typed: str = self.cleaned_data["typed"]
        if typed.strip() != self._name:
            raise forms.ValidationError(f"This is not {self._name}.")
        return typed
