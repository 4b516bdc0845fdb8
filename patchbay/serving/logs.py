"""Logs: one stream of structured lines on standard error, for our own modules and for every library.

Modules log with the standard library (`logging.getLogger(__name__)`); only this module sets the format of lines:
readable text on a terminal, else one JSON object per line. Logs do not go to standard output, which is for protocols
and for the output of commands.
"""

from __future__ import annotations

import logging
import logging.config
import sys
from typing import Any

import structlog

from patchbay.settings import Settings
from patchbay.views.terminal import is_terminal

SHARED: tuple[structlog.typing.Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)


def begin(settings: Settings) -> None:
    """Set logging up in this process."""
    logging.captureWarnings(True)
    logging.config.dictConfig(configuration(settings))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def configuration(settings: Settings) -> dict[str, Any]:
    """Return the standard library's logging configuration; the web server applies it again in each of its processes."""
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter, "style": _style(settings.log_format)}},
        "filters": {"expected": {"()": ExpectedWarnings}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            # The web server logs its start and stop at INFO, and so does the hub. It sets the level of `_granian`
            # itself.
            "_granian": {"level": "WARNING", "filters": ["expected"]},
            "granian.access": {"level": "WARNING"},
            # It logs the URL of each request at INFO, also with a key in its query.
            "httpx2": {"level": "WARNING"},
            # It logs each group of changed files.
            "watchfiles": {"level": "WARNING"},
            # It tells of each WebSocket that closes.
            "websockets": {"level": "WARNING"},
        },
    }


def formatter(style: str) -> logging.Formatter:
    """Return the formatter of one style, `console` or `json`."""
    last: list[structlog.typing.Processor]
    if style == "console":
        last = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _style(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    return "console" if is_terminal(sys.stderr) else "json"


class ExpectedWarnings(logging.Filter):
    """Removes the web server's warning about many threads, which are intended because each stream holds a thread."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        return not record.getMessage().startswith("Configuration allows spawning up to")
