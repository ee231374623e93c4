"""One event, one line of JSON. Nothing that was logged can end the line or speak to a terminal (T62)."""

import json
import logging
from datetime import UTC, datetime

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "console.logging.Line"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": []},  # to the root alone
        "django.security.DisallowedHost": {"level": "CRITICAL"},  # every scanner of the internet makes some
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},  # it would name the addresses of agents' receivers
        "procrastinate": {"level": "WARNING"},
    },
}


class Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if isinstance(facts := getattr(record, "facts", None), dict):
            fields |= facts
        if status := getattr(record, "status_code", None):
            fields["status"] = status
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # ensure_ascii escapes C0, C1 and everything bidirectional; DEL is the one control character it leaves.
        return json.dumps(fields, default=str).replace("\x7f", "\\u007f")
