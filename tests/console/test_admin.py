from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as DjangoSettings
from pytest_django.asserts import assertContains

from hub.models import Finding, LabelHead


@pytest.fixture
def finding(db: None) -> Finding:
    now = timezone.now()
    return Finding.objects.create(
        code="V.PROOF", severity="critical", object="label x", first_seen=now, last_seen=now
    )


def test_the_header_shows_zone_and_hub(
    operator: Client, tmp_path: Path, settings: DjangoSettings
) -> None:
    settings.VEEN_STATUS_FILE = tmp_path / "status.json"
    settings.VEEN_STATUS_FILE.write_text(json.dumps({"hub_id": "ab" * 32}))
    settings.VEEN_ZONE = "offline"
    answer = operator.get("/admin/")
    assertContains(answer, "zone: offline")
    assertContains(answer, f'title="hub_id {"ab" * 32}"')


@pytest.mark.usefixtures("log_of_three")
@pytest.mark.parametrize("table", ["labelhead", "manifestrow"])
def test_what_the_log_says_cannot_be_edited(operator: Client, table: str) -> None:
    assert operator.get(f"/admin/hub/{table}/").status_code == 200
    assert operator.get(f"/admin/hub/{table}/add/").status_code == 403
    key = LabelHead.objects.values_list("pk", flat=True)[0] if table == "labelhead" else f"{1:064x}"
    shown = operator.get(f"/admin/hub/{table}/{key}/change/")
    assert shown.status_code == 200
    assert b'name="_save"' not in shown.content
    assert operator.post(f"/admin/hub/{table}/{key}/change/", {"root": "00"}).status_code == 403
    assert operator.post(f"/admin/hub/{table}/{key}/delete/", {"post": "yes"}).status_code == 403
    bulk = {"action": "delete_selected", "_selected_action": key, "post": "yes"}
    operator.post(f"/admin/hub/{table}/", bulk)
    assert operator.get(f"/admin/hub/{table}/{key}/change/").status_code == 200


def test_findings_cannot_be_edited_removed_or_made_up(operator: Client, finding: Finding) -> None:
    path = f"/admin/hub/finding/{finding.pk}/change/"
    assert operator.get(path).status_code == 200
    assert operator.post(path, {"reason": "drill", "severity": "warning"}).status_code == 403
    assert operator.get("/admin/hub/finding/add/").status_code == 403
    answer = operator.post(f"/admin/hub/finding/{finding.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 403
    assert Finding.objects.filter(pk=finding.pk).exists()


@pytest.mark.django_db
def test_a_user_who_is_not_staff_is_told_so_instead_of_being_sent_in_circles() -> None:
    client = Client()
    client.force_login(User.objects.create_user("ivan"))
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
