"""The web process as gunicorn loads it: refuses an unsafe start [style 4: settings]."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from config.checks import refuse_unsafe_start
from config.unread import reading_the_rest

application = reading_the_rest(get_wsgi_application())
refuse_unsafe_start()

# Models can be imported only now that the apps are loaded.
from hub.services import keep_index_fresh  # noqa: E402
from recorder.queries import names_by_label  # noqa: E402

keep_index_fresh(settings.VEEN_INDEX_REFRESH_S, names_by_label)
