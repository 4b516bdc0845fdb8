"""Logs: one stream of structured lines on standard error, for our own modules and for every library.

Modules log with the standard library (`logging.getLogger(__name__)`); only this module sets the format of lines:
readable text on a terminal, else one JSON object per line. Logs do not go to standard output, which is for protocols
and for the output of commands.
"""

from __future__ import annotations

import logging
import logging.config
import sys
import threading
import time
from functools import cached_property
from typing import Any

from patchbay.settings import Settings
from patchbay.terminal import is_terminal

LOGGERS_OF_CONNECTIONS = (
    "asyncio",
    "patchbay.wire.front.slow_clients",
    "patchbay.wire.front.websockets",
    "patchbay.wire.rooms.sockets",
    "patchbay.wire.server.http_server",
)
"""Loggers whose lines are about connections: each logs one line of a kind in REPEAT_SECONDS."""

REPEAT_SECONDS = 60.0

MAX_KINDS = 256
"""Kinds of lines that are remembered; the one that passed first is forgotten for a further one."""

Kind = tuple[str, int, str, int, object]
"""Logger, level, file and line number of the code that logs, and the class of the logged exception."""


def begin(settings: Settings) -> None:
    """Set logging up in this process."""
    logging.captureWarnings(True)
    logging.config.dictConfig(configuration(settings))


def configuration(settings: Settings) -> dict[str, Any]:
    """Return the standard library's logging configuration."""
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": LateFormatter, "style": _style(settings.log_format)}},
        "filters": {"repeated": {"()": RepeatedLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # It logs the URL of each request at INFO, also with a key in its query.
            "httpx2": {"level": "WARNING"},
            # It logs the URL of each connection at DEBUG, in the same form.
            "mcp.client": {"level": "WARNING"},
            # It logs each group of changed files.
            "watchfiles": {"level": "WARNING"},
            # It tells of each WebSocket that closes.
            "websockets": {"level": "WARNING"},
            # Clients decide how often these log a line.
            **{name: {"filters": ["repeated"]} for name in LOGGERS_OF_CONNECTIONS},
        },
    }


class LateFormatter(logging.Formatter):
    """The formatter of one style, `console` or `json`, which is made for the first line: a start logs none."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self._log_style = style

    @cached_property
    def _lines(self) -> logging.Formatter:
        from patchbay.serving.log_lines import make_formatter

        return make_formatter(self._log_style)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self._lines.format(record)


def _style(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "console" if is_terminal(sys.stderr) else "json"


class RepeatedLines(logging.Filter):
    """Lets one line of a kind pass in REPEAT_SECONDS, so that clients cannot fill a disk with lines.

    A kind is what one place in the code logs at one level about one class of exceptions: the messages of a library may
    have values in them, such as addresses. The next line of the kind says how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kinds: dict[Kind, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        kind, now = _kind_of(record), time.monotonic()
        with self._lock:
            since, left_out = self._kinds.get(kind, (-REPEAT_SECONDS, 0))
            if now - since < REPEAT_SECONDS:
                self._kinds[kind] = (since, left_out + 1)
                return False
            self._kinds.pop(kind, None)
            self._kinds[kind] = (now, 0)
            if len(self._kinds) > MAX_KINDS:
                del self._kinds[next(iter(self._kinds))]
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more such lines before it)"
        return True


def _kind_of(record: logging.LogRecord) -> Kind:
    raised = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, record.pathname, record.lineno, raised
