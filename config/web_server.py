"""gunicorn's settings for the web process; the address comes by flag [experience 2.1]."""

from __future__ import annotations

from config.log_lines import LOG_LINES

worker_class = "gthread"
workers = 1
threads = 8
timeout = 60
graceful_timeout = 10
keepalive = 5
control_socket_disable = True
limit_request_line = 4096
limit_request_fields = 64
limit_request_field_size = 8190
forwarded_allow_ips = ""  # no proxy in front: nobody may claim another address
proc_name = "veen-web"
umask = 0o077
logconfig_dict = {
    **LOG_LINES,
    "loggers": {
        **LOG_LINES["loggers"],
        "gunicorn.error": {"handlers": [], "level": "WARNING", "propagate": True},
        "gunicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
    },
}
