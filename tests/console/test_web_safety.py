"""Headers, error pages, log lines and the checks that refuse an unsafe start."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from pytest_django import Settings as DjangoSettings

from config import checks, database, errors
from config.log_lines import JsonLines
from config.settings_file import Settings
from config.up_secrets import DJANGO_KEY
from config.up_state import StateDir, make_directories, write_atomic
from hub.errors import ErrorCode, VeenError


@pytest.mark.parametrize("path", ["/healthz", "/login/", "/nowhere", "/static/console/console.css"])
@pytest.mark.django_db
def test_every_answer_carries_the_policy_and_a_request_id(client: Client, path: str) -> None:
    answer = client.get(path)
    answer.close()  # a static file is streamed
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
    assert len(answer["Veen-Request-Id"]) == 16


@pytest.mark.django_db
def test_pages_are_not_cached_and_static_files_are(client: Client) -> None:
    static = client.get("/static/console/console.css")
    static.close()
    assert "max-age=300" in static["Cache-Control"]
    assert "no-store" in client.get("/login/")["Cache-Control"]


def test_another_host_name_is_refused(client: Client) -> None:
    assert client.get("/healthz", HTTP_HOST="127.0.0.1:8080").status_code == 200
    assert client.get("/login/", HTTP_HOST="evil.example").status_code == 400


@pytest.mark.django_db
def test_under_api_an_error_is_json(client: Client) -> None:
    answer = client.get("/api/nothing")
    assert answer.status_code == 404
    assert answer.json().keys() == {"error_code", "message", "request_id"}
    assert answer.json()["request_id"] == answer["Veen-Request-Id"]


def test_a_refusal_of_a_view_becomes_its_status_and_code() -> None:
    def view(_: HttpRequest) -> HttpResponse:
        raise AssertionError

    middleware = errors.render_refusals(view)
    request = RequestFactory().get("/api/x")
    refusal = VeenError(ErrorCode.RATE, "slow down", retry_after_s=7)
    answer = middleware.process_exception(request, refusal)  # type: ignore[attr-defined]
    assert (answer.status_code, answer["Retry-After"]) == (429, "7")
    assert json.loads(answer.content)["error_code"] == "rate_limited"
    assert middleware.process_exception(request, ValueError()) is None  # type: ignore[attr-defined]


def test_a_log_line_cannot_be_forged_or_coloured() -> None:
    nasty = 'x\r\n{"level":"fake"}\x1b[31m\x9b31m\x7f\u2028'
    record = logging.makeLogRecord({"msg": "http.served", "path": nasty, "levelname": "INFO"})
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["path"] == nasty


def test_a_log_line_is_bounded() -> None:
    record = logging.makeLogRecord({"msg": "m" * 100_000, "path": "p" * 100_000})
    assert len(JsonLines().format(record)) < 10_000


@pytest.fixture
def state(tmp_path: Path, settings: DjangoSettings) -> StateDir:
    """A state directory with which every check passes."""
    state = StateDir.at(tmp_path / "state")
    make_directories(state)
    write_atomic(state.secret(DJANGO_KEY), b"k" * 43)
    settings.STATE = state
    settings.SECRET_KEY = "k" * 43
    return state


def found() -> set[str | None]:
    return {m.id for m in run_checks(tags=[checks.TAG], include_deployment_checks=True)}


@pytest.mark.usefixtures("state")
def test_a_sound_deployment_passes_every_check() -> None:
    assert found() == set()
    checks.refuse_unsafe_start()


@pytest.mark.usefixtures("state")
def test_debug_is_refused(settings: DjangoSettings) -> None:
    settings.DEBUG = True
    assert found() == {"hub.E001"}
    with pytest.raises(ImproperlyConfigured, match=r"hub\.E001"):
        checks.refuse_unsafe_start()


def test_a_missing_or_weak_key_is_refused(state: StateDir, settings: DjangoSettings) -> None:
    settings.SECRET_KEY = "short"
    assert found() == {"hub.E003"}
    settings.SECRET_KEY = "django-insecure-" + "k" * 50
    assert found() == {"hub.E003"}
    state.secret(DJANGO_KEY).unlink()
    assert found() == {"hub.E002"}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_secret_others_can_read_is_refused(state: StateDir, mode: int) -> None:
    state.secret(DJANGO_KEY).chmod(mode)
    assert found() == {"hub.E004"}


def test_a_room_of_secrets_others_can_enter_is_refused(state: StateDir) -> None:
    state.secrets.chmod(0o755)
    assert found() == {"hub.E004"}


@pytest.mark.usefixtures("state")
def test_answering_to_any_host_is_refused(settings: DjangoSettings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert found() == {"hub.E005"}


def test_a_postgresql_url_is_taken_apart(tmp_path: Path) -> None:
    password = tmp_path / "password"
    write_atomic(password, b"p@ss word\n")
    url = "postgresql://us%65r@db.example:5433/ve%65n?sslmode=verify-full"
    made = database.configuration(
        Settings(database_url=url, database_password_file=password), StateDir.at(tmp_path)
    )
    wanted = ("user", "p@ss word", "db.example", "5433", "veen")
    assert tuple(made[k] for k in ("USER", "PASSWORD", "HOST", "PORT", "NAME")) == wanted
    assert made["OPTIONS"] == {"sslmode": "verify-full"}


@pytest.mark.parametrize("url", ["mysql://h/d", "postgresql://h", "postgresql://h/"])
def test_another_database_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(VeenError) as refusal:
        database.configuration(Settings(database_url=url), StateDir.at(tmp_path))
    assert refusal.value.code is ErrorCode.CONFIG
