"""All verbs by name: what administrators may ask for, and what only the product may [SDR0 3.2]."""

from __future__ import annotations

from typing import Any, Final

from recorder.acts.accounts import (
    ActivateAccount,
    ChangeRole,
    CreateAccount,
    DeactivateAccount,
    ResetPassword,
)
from recorder.acts.checkpoints import CheckpointNow
from recorder.acts.findings import AcknowledgeFinding
from recorder.acts.lake import Audit, Seal
from recorder.acts.mapping import MapTypes, Migrate
from recorder.acts.producers import AddProducer, RevokeProducer, RotateProducer
from recorder.acts.readers import AddReader, RevokeReader
from recorder.acts.retention import Prune, SetRetention
from recorder.acts.streams import ChangeClass, CreateReservedStream, CreateStream, RotateKey
from recorder.acts.tokens import CreateToken, RevokeToken
from recorder.acts.verb import Verb
from recorder.codes import Detail, RecordCode, RecordError

_ALL: Final[tuple[Verb[Any], ...]] = (
    CreateStream(),
    CreateReservedStream(),
    ChangeClass(),
    MapTypes(),
    Migrate(),
    RotateKey(),
    AddProducer(),
    RotateProducer(),
    RevokeProducer(),
    AddReader(),
    RevokeReader(),
    CreateToken(),
    RevokeToken(),
    CheckpointNow(),
    SetRetention(),
    Prune(),
    Seal(),
    Audit(),
    AcknowledgeFinding(),
    CreateAccount(),
    ChangeRole(),
    DeactivateAccount(),
    ActivateAccount(),
    ResetPassword(),
)
VERBS: Final = {verb.name: verb for verb in _ALL}


def find_verb(name: object) -> Verb[Any]:
    """A verb that people may ask for, or invalid_parameter."""
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None or not verb.is_public:
        known = ", ".join(sorted(one.name for one in _ALL if one.is_public))
        flaw = Detail(pointer="/verb", reason=f"not one of {known}")
        raise RecordError(RecordCode.INVALID_PARAMETER, "there is no such act", details=[flaw])
    return verb
