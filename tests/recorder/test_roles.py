from __future__ import annotations

import pytest

from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey
from recorder.roles import ALL_STREAMS, Binding, Role, Rule, check, lint
from recorder.streams import CHANGES, CHECKPOINTS


def key(number: int) -> PublicKey:
    return PublicKey(bytes([number]) * 32)


def producer(number: int = 1, name: str = "shop", **changes: object) -> Binding:
    given = {"append": frozenset({"record/app/shop"}), **changes}
    return Binding(principal=key(number), role=Role.PRODUCER, name=name, **given)  # type: ignore[arg-type]


def admin(number: int = 9, name: str = "root", **changes: object) -> Binding:
    given = {"read": frozenset({ALL_STREAMS}), **changes}
    return Binding(principal=key(number), role=Role.ADMIN, name=name, **given)  # type: ignore[arg-type]


SERVICE = Binding(
    principal=key(8), role=Role.SERVICE, name="recorder-service", append=frozenset({CHANGES})
)
READER = Binding(
    principal=key(7), role=Role.READER, name="auditor", read=frozenset({"record/app/shop"})
)


def rules(*bindings: Binding) -> set[Rule]:
    return {one.rule for one in lint(bindings)}


def test_a_clean_deployment_has_no_findings() -> None:
    everyone = [producer(), producer(2, "till"), admin(), SERVICE, READER]
    assert lint(everyone) == ()
    check(everyone)


def test_an_administrator_is_never_a_producer() -> None:
    found = lint([producer(), admin(1)])
    assert {one.rule for one in found} >= {Rule.ADMIN_IS_PRODUCER, Rule.TWO_ROLES, Rule.TWO_NAMES}
    with pytest.raises(VeenError) as refused:
        check([producer(), admin(1)])
    assert refused.value.code is ErrorCode.POLICY
    assert "admin-is-producer" in refused.value.detail


@pytest.mark.parametrize(
    ("binding", "rule"),
    [
        (producer(append=frozenset()), Rule.APPEND_NOT_NAMED),
        (producer(append=frozenset({ALL_STREAMS})), Rule.APPEND_NOT_NAMED),
        (producer(append=frozenset({"other/app/x"})), Rule.APPEND_NOT_NAMED),
        (producer(append=frozenset({CHANGES})), Rule.APPEND_RESERVED),
        (producer(append=frozenset({"record/query/requests"})), Rule.APPEND_RESERVED),
        (producer(read=frozenset({"record/app/shop"})), Rule.READS),
        (admin(append=frozenset({"record/app/shop"})), Rule.APPENDS),
        (
            Binding(principal=key(3), role=Role.READER, name="r", append=frozenset({CHANGES})),
            Rule.APPENDS,
        ),
        (
            Binding(principal=key(3), role=Role.SERVICE, name="s", append=frozenset()),
            Rule.APPEND_NOT_NAMED,
        ),
        (
            Binding(
                principal=key(3), role=Role.SERVICE, name="s",
                append=frozenset({CHECKPOINTS, "record/app/shop"}),
            ),
            Rule.APPEND_NOT_OWN,
        ),
        (
            Binding(
                principal=key(3), role=Role.SERVICE, name="s", append=frozenset({CHANGES}),
                read=frozenset({CHANGES}),
            ),
            Rule.READS,
        ),
    ],
)  # fmt: skip
def test_each_rule_is_found(binding: Binding, rule: Rule) -> None:
    assert rules(binding, *([] if binding.role is Role.ADMIN else [admin()])) == {rule}


def test_one_key_is_one_identity_and_one_name_one_key() -> None:
    assert rules(producer(), producer(1, "till")) == {Rule.TWO_NAMES}
    assert rules(producer(), producer(2)) == {Rule.SHARED_NAME}


def test_findings_do_not_depend_on_the_order_of_bindings() -> None:
    bindings = [producer(), producer(2), admin(1), SERVICE, producer(1, "till")]
    assert lint(bindings) == lint(bindings[::-1])
    assert all(one.principal.hex()[:16] in str(one) for one in lint(bindings))
