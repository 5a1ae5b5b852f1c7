"""Django's settings, derived from the typed settings of the bundle [style 4].

Nothing here is read from the environment but through config.settings_file.
"""

from __future__ import annotations

import secrets as randomness
from pathlib import Path
from typing import Any, Final

from config import api_settings, database, settings_file
from config.log_lines import LOG_LINES
from config.up_secrets import ADMIN_TOKEN, DJANGO_KEY
from config.up_state import StateDir

VEEN: Final = settings_file.load()
STATE: Final = StateDir.at(VEEN.data_dir)

DEBUG = False
BASE_DIR: Final = Path(__file__).resolve().parent.parent


def _secret_key() -> str:
    """The key of the state directory; without one a key for this process only.

    Commands such as makemigrations need no key; the web process refuses to start without the
    file (hub.E002).
    """
    path = STATE.secret(DJANGO_KEY)
    if path.exists():
        return path.read_text().strip()
    return "ephemeral-" + randomness.token_urlsafe(48)


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *VEEN.allowed_hosts]

INSTALLED_APPS = [
    "console.apps.ConsoleConfig",  # before the admin, whose frame it dresses
    "console.apps.VeenAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "hub.apps.HubConfig",
    "recorder.apps.RecorderConfig",
    "queryapi.apps.QueryApiConfig",
]
MIDDLEWARE = [
    "config.middleware.request_log",
    "config.middleware.security_headers",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.errors.render_refusals",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.shell",
            ]
        },
    }
]

DATABASES = {"default": database.configuration(VEEN, STATE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

SESSION_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_HTTPONLY = True
# The console is served on loopback over plain http: a Secure cookie would never come back.
SESSION_COOKIE_SECURE = False
SESSION_COOKIE_NAME = "veen_session"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SECURE = False
CSRF_COOKIE_NAME = "veen_csrf"
CSRF_FAILURE_VIEW = "config.errors.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = api_settings.BODY_BYTES_MAX

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
FORMAT_MODULE_PATH = ["config.formats"]  # times as the log prints them

# Served straight from the packages: no copy that could be stale or half made.
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_MAX_AGE = 300

LOGGING = LOG_LINES

REST_FRAMEWORK = api_settings.REST_FRAMEWORK
SPECTACULAR_SETTINGS = api_settings.SPECTACULAR_SETTINGS

# Read by the hub app and the console, which know nothing of the composition above them.
VEEN_ZONE = VEEN.zone
VEEN_STATUS_FILE = STATE.status
VEEN_TRUST_FILE = STATE.trust
VEEN_TRUST_PK_FILE = STATE.trust_pk
VEEN_READ_TOKEN_FILE = STATE.secret("web.token")
VEEN_ADMIN_TOKEN_FILE = STATE.secret(ADMIN_TOKEN)
VEEN_INDEX_REFRESH_S = 5
VEEN_HUB_DIR = STATE.hub
VEEN_ANCHOR_FILE = VEEN.anchor_file or STATE.root / "anchors" / "manifests.anchor"
VEEN_ANCHOR_TSA_URL = VEEN.anchor_tsa_url
VEEN_ANCHOR_TSA_CERT = VEEN.anchor_tsa_cert
VEEN_ANCHOR_ALLOW = VEEN.anchor_allow
VEEN_LAKE_DIR = STATE.root / "lake"
VEEN_RESULTS_DIR = STATE.root / "results"
VEEN_QUERY_LAUNCHER = "config.query_launcher.CeleryQueries"
VEEN_LAKE_LAUNCHER = "config.lake_launcher.CeleryLake"
VEEN_AUTHOR_SOCKET = STATE.author_socket
