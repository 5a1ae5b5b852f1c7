"""Admin of the recorder without a browser: who may ask, and that nothing changes by looking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django import Settings as DjangoSettings
from pytest_django.asserts import assertContains, assertNotContains

from hub.models import Finding
from recorder.acts.table import VERBS
from recorder.admin_verbs import ADMIN_VERBS
from recorder.auth import sha256_of
from recorder.models import Act, ApiToken, AuthoredEvent, EventType, LakeJob, Producer, Stream
from tests.recorder.admin.conftest import PASSWORD
from tests.support.web_bundle import producer, token

pytestmark = pytest.mark.django_db
ASK = "/admin/recorder/act/ask"


@pytest.fixture
def operator(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


@pytest.fixture(autouse=True)
def _nobody_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.admin_acts.WAIT_S", 0.0)


def stream(name: str = "record/app/shop", **changes: Any) -> Stream:
    fields = {
        "label": name.encode().hex().ljust(64, "0")[:64], "label_class": "log",
        "sensitivity": "low", "retention_hint": 315_360_000, "event_bytes_max": 100,
        "created_at": timezone.now(),
    }  # fmt: skip
    return Stream.objects.create(name=name, **(fields | changes))


CONFIRMED = {"confirmed": "yes", "once": "n1", "reason": "because of the drill"}


def test_every_public_verb_has_its_page_and_every_page_its_verb() -> None:
    public = {name for name, verb in VERBS.items() if verb.is_public}
    assert {one.verb for one in ADMIN_VERBS.values()} == public
    assert {"stream.migrate.rename", "stream.migrate.split"} <= set(ADMIN_VERBS)


@pytest.mark.parametrize("verb", sorted(ADMIN_VERBS))
def test_looking_at_a_page_asks_for_nothing(operator: Client, verb: str) -> None:
    stream()
    producer("billing", "record/app/shop")
    token("reader", "audit", all_streams=True)
    User.objects.create_user("ivan")
    on = {"producer": "billing", "token": str(ApiToken.objects.get().pk), "account": "ivan"}
    query = {"on": on.get(verb.partition(".")[0], "record/app/shop")} | CONFIRMED
    assert operator.get(f"{ASK}/{verb}/", query).status_code == 200
    assert not Act.objects.exists()


def test_only_a_confirmed_post_with_a_reason_asks_for_the_act(operator: Client) -> None:
    for missing in ("confirmed", "reason"):
        data = {key: value for key, value in CONFIRMED.items() if key != missing}
        assert operator.post(f"{ASK}/checkpoint.now/", data).status_code == 200
    for reason in ("", "  ", "ab", " a ", "x" * 1001):
        operator.post(f"{ASK}/checkpoint.now/", CONFIRMED | {"reason": reason})
    assert not Act.objects.exists()
    answer = operator.post(f"{ASK}/checkpoint.now/", CONFIRMED)
    act = Act.objects.get()
    assert answer["Location"] == f"/admin/recorder/act/{act.pk}/change/"
    assert (act.verb, act.actor, act.reason) == ("checkpoint.now", "olga", "because of the drill")


def test_a_form_that_is_sent_twice_asks_once(operator: Client) -> None:
    first = operator.post(f"{ASK}/checkpoint.now/", CONFIRMED)
    again = operator.post(f"{ASK}/checkpoint.now/", CONFIRMED)
    assert Act.objects.count() == 1
    assert again["Location"] == first["Location"]
    operator.post(f"{ASK}/checkpoint.now/", CONFIRMED | {"once": "n2"})
    assert Act.objects.count() == 2


def test_without_its_csrf_token_a_post_is_refused(olga: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    assert client.post(f"{ASK}/checkpoint.now/", CONFIRMED).status_code == 403
    assert not Act.objects.exists()


def test_who_may_only_look_sees_no_buttons_and_opens_no_form(transactional_db: None) -> None:
    ivan = User.objects.create_user("ivan", is_staff=True)
    ivan.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(ivan)
    stream()
    answer = client.get("/admin/recorder/stream/")
    assertContains(answer, "record/app/shop")
    assertNotContains(answer, "Create a stream")
    for verb in ADMIN_VERBS:
        assert client.get(f"{ASK}/{verb}/").status_code == 403
        assert client.post(f"{ASK}/{verb}/", CONFIRMED).status_code == 403
    assert not Act.objects.exists()


@pytest.mark.parametrize(
    ("table", "make"),
    [
        ("stream", stream),
        ("apitoken", lambda: ApiToken.objects.get(sha256=sha256_of(token("reader", "audit")))),
        ("producer", lambda: producer("billing")),
        ("act", lambda: Act.objects.create(verb="v", args={}, actor="a", created_at=_now())),
        ("lakejob", lambda: LakeJob.objects.create(kind="seal", created_at=_now())),
    ],
)
def test_no_table_can_be_edited(operator: Client, table: str, make: Callable[[], Any]) -> None:
    key = str(make().pk).replace("/", "_2F")
    base = f"/admin/recorder/{table}"
    assert operator.get(f"{base}/add/").status_code == 403
    assert operator.post(f"{base}/add/", {"name": "x"}).status_code == 403
    shown = operator.get(f"{base}/{key}/change/")
    assert shown.status_code == 200
    assertNotContains(shown, 'name="_save"')
    assert operator.post(f"{base}/{key}/change/", {"name": "x"}).status_code == 403
    assert operator.post(f"{base}/{key}/delete/", {"post": "yes"}).status_code == 403
    operator.post(base + "/", {"action": "delete_selected", "_selected_action": key, "post": "yes"})
    assert operator.get(f"{base}/{key}/change/").status_code == 200


def _now() -> Any:
    return timezone.now()


DESTRUCTIVE = CONFIRMED | {"on": "billing", "typed": "billing", "password": PASSWORD}


@pytest.mark.parametrize(
    "wrong",
    [{"typed": "Billing"}, {"typed": ""}, {"password": "x"}, {"password": ""}, {"reason": ""}],
)
def test_what_cannot_be_undone_needs_name_password_and_reason(
    operator: Client, wrong: dict[str, str]
) -> None:
    producer("billing")
    assert operator.post(f"{ASK}/producer.revoke/", DESTRUCTIVE | wrong).status_code == 200
    assert not Act.objects.exists()
    assert operator.post(f"{ASK}/producer.revoke/", DESTRUCTIVE).status_code == 302
    assert Act.objects.get().args == {"name": "billing"}


def test_guessing_the_password_ends_the_session(operator: Client) -> None:
    producer("billing")
    for _ in range(4):
        operator.post(f"{ASK}/producer.revoke/", DESTRUCTIVE | {"password": "guess"})
    answer = operator.post(f"{ASK}/producer.revoke/", DESTRUCTIVE | {"password": "guess"})
    assert answer["Location"].startswith("/login/")
    answer = operator.post(f"{ASK}/producer.revoke/", DESTRUCTIVE)
    assert answer["Location"].startswith("/admin/login/")
    assert not Act.objects.exists()


def test_an_act_about_nothing_is_not_found(operator: Client) -> None:
    assert operator.get(f"{ASK}/no.such/").status_code == 404
    assert operator.get(f"{ASK}/stream.create_reserved/").status_code == 404
    assert operator.get(f"{ASK}/stream.rotate_key/").status_code == 404
    assert operator.get(f"{ASK}/token.revoke/", {"on": "no-uuid"}).status_code == 404


def test_a_stream_is_created_and_changed_with_its_class_and_retention(operator: Client) -> None:
    page = operator.get(f"{ASK}/stream.create/")
    assertContains(page, "Label class")
    given = {
        "name": "record/app/new", "label_class": "audit", "sensitivity": "high",
        "event_bytes_max": "500", "retention_hint": "400000000", "event_types": "a.b",
    }  # fmt: skip
    operator.post(f"{ASK}/stream.create/", CONFIRMED | given)
    assert Act.objects.get().args == {
        "name": "record/app/new", "class": "audit", "sensitivity": "high",
        "event_bytes_max": 500, "retention_hint": 400_000_000, "event_types": ["a.b"],
    }  # fmt: skip
    stream()
    change = {"on": "record/app/shop", "label_class": "audit", "once": "n2"}
    operator.post(f"{ASK}/stream.class/", CONFIRMED | change)
    [act] = Act.objects.filter(verb="stream.class")
    assert act.args == {"stream": "record/app/shop", "class": "audit"}
    refused = operator.post(
        f"{ASK}/stream.create/", CONFIRMED | given | {"label_class": "A B", "once": "n3"}
    )
    assertContains(refused, "class is not")
    assert Act.objects.count() == 2


def test_a_refusal_of_the_verb_stands_on_the_page(operator: Client) -> None:
    answer = operator.get(f"{ASK}/stream.rotate_key/", {"on": "record/app/none"})
    assertContains(answer, "there is no stream record/app/none")
    answer = operator.post(f"{ASK}/producer.add/", {"name": "-", "held": "gateway"})
    assertContains(answer, "This field is required")


def test_a_finding_is_acknowledged_by_an_act_with_a_reason(operator: Client) -> None:
    now = timezone.now()
    finding = Finding.objects.create(
        code="V.PROOF", severity="critical", object="label x", first_seen=now, last_seen=now
    )
    shown = operator.get(f"/admin/hub/finding/{finding.pk}/change/")
    assertContains(shown, f"{ASK}/finding.acknowledge/?on={finding.pk}")
    asked = operator.get(f"{ASK}/finding.acknowledge/", {"on": str(finding.pk)})
    assertContains(asked, "V.PROOF label x")
    given = CONFIRMED | {"on": str(finding.pk)}
    operator.post(f"{ASK}/finding.acknowledge/", given | {"reason": " "})
    assert not Act.objects.exists()
    assert operator.post(f"{ASK}/finding.acknowledge/", given).status_code == 302
    act = Act.objects.get()
    assert (act.verb, act.args) == ("finding.acknowledge", {"finding_id": finding.pk})
    Finding.objects.update(acknowledged_by="olga")
    assertNotContains(operator.get(f"/admin/hub/finding/{finding.pk}/change/"), ASK)
    for on in ("77", "no number"):
        answer = operator.get(f"{ASK}/finding.acknowledge/", {"on": on})
        assertContains(answer, "finding", status_code=200)
    assert Act.objects.count() == 1


def test_a_split_asks_where_each_event_type_goes(operator: Client) -> None:
    shop, _, _ = stream(), stream("record/app/bills"), stream("record/query/requests")
    for name in ("order.placed", "order.paid", "bill.sent"):
        EventType.objects.create(event_type=name, stream=shop)
    page = f"{ASK}/stream.migrate.split/"
    asked = operator.get(page, {"on": shop.name})
    for name in ("order.placed", "order.paid", "bill.sent"):
        assertContains(asked, f'name="move-{name}"')
    assertContains(asked, '<option value="record/app/bills">', count=3)
    assertNotContains(asked, "record/query/requests")  # the product's own takes nobody's events
    given = DESTRUCTIVE | {"on": shop.name, "typed": shop.name}
    answer = operator.post(page, given)
    assertContains(answer, "Every event type stays here")
    answer = operator.post(page, given | {"move-bill.sent": "record/query/requests"})
    assertContains(answer, "Select a valid choice")
    assert not Act.objects.exists()
    moves = {"move-bill.sent": "record/app/bills", "move-order.paid": "record/app/bills"}
    confirm = operator.post(page, {"on": shop.name} | moves)
    assertContains(confirm, "What will be asked for")
    assertContains(confirm, '<input type="hidden" name="move-bill.sent" value="record/app/bills"')
    assert operator.post(page, given | moves).status_code == 302
    act = Act.objects.get()
    assert (act.verb, act.args) == (
        "stream.migrate",
        {
            "kind": "split",
            "from": shop.name,
            "moves": {"record/app/bills": ["bill.sent", "order.paid"]},
        },
    )


def test_a_stream_without_event_types_cannot_be_split(operator: Client) -> None:
    stream()
    given = DESTRUCTIVE | {"on": "record/app/shop", "typed": "record/app/shop"}
    answer = operator.post(f"{ASK}/stream.migrate.split/", given)
    assertContains(answer, "no event types to move")
    assert not Act.objects.exists()


def test_what_people_type_is_never_markup(operator: Client) -> None:
    nasty = "<script>alert(1)</script>"
    AuthoredEvent.objects.create(
        key="k", identity="recorder-service", stream="record/app/x", event_type="t",
        subject_id=nasty, payload_text=f'"{nasty}"', event_time_ms=0, created_at=_now(),
    )  # fmt: skip
    act = Act.objects.create(
        verb="checkpoint.now", args={"x": nasty}, actor=nasty, reason=nasty, created_at=_now(),
        result={"y": nasty}, message=nasty,
    )  # fmt: skip
    for path in (
        "/admin/recorder/authoredevent/", "/admin/recorder/authoredevent/k/change/",
        "/admin/recorder/act/", f"/admin/recorder/act/{act.pk}/change/",
    ):  # fmt: skip
        answer = operator.get(path)
        assertNotContains(answer, nasty)
        assertContains(answer, "&lt;script&gt;")
    answer = operator.post(
        f"{ASK}/checkpoint.now/", {"reason": nasty, "confirmed": "yes", "on": nasty}
    )
    assert nasty not in answer.getvalue().decode()


def test_a_page_that_waits_loads_itself_again(operator: Client) -> None:
    act = Act.objects.create(verb="checkpoint.now", args={}, actor="a", created_at=_now())
    path = f"/admin/recorder/act/{act.pk}/change/"
    assert operator.get(path)["Refresh"] == "2"
    Act.objects.update(state=Act.State.DONE)
    assert "Refresh" not in operator.get(path)


@pytest.mark.parametrize("table", ["stream", "eventtype", "producer", "apitoken"])
def test_a_table_costs_the_same_queries_for_any_length(
    operator: Client, table: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def fill(first: int, last: int) -> None:
        for number in range(first, last):
            row = stream(f"record/app/s{number}", label=f"{number:064x}")
            EventType.objects.create(event_type=f"t{number}", stream=row)
            producer(f"p{number}", row.name)
            token("reader", f"r{number}", streams=(row.name,))

    fill(0, 2)
    with CaptureQueriesContext(connection) as few:
        operator.get(f"/admin/recorder/{table}/")
    fill(2, 40)
    with django_assert_num_queries(len(few.captured_queries)):
        operator.get(f"/admin/recorder/{table}/")


def test_the_ingest_page_says_what_waits(
    operator: Client, settings: DjangoSettings, tmp_path: Any
) -> None:
    settings.VEEN_LAKE_DIR = tmp_path
    settings.VEEN_STATUS_FILE = tmp_path / "none"
    stream()
    Act.objects.create(verb="checkpoint.now", args={}, actor="a", created_at=_now())
    LakeJob.objects.create(kind="seal", state="failed", created_at=_now())
    answer = operator.get("/admin/recorder/ingest/")
    assertContains(answer, "not running")
    assertContains(answer, "1 failed")
    assertContains(answer, 'state__exact=pending">1</a>')
    (tmp_path / Stream.objects.get().label).mkdir()
    (tmp_path / Stream.objects.get().label / "manifest.json").write_text("{")
    assertContains(operator.get("/admin/recorder/ingest/"), "damaged")
    assert Producer.objects.count() == 0
