"""The two forms of log lines, made with structlog: readable text for a terminal, or one JSON object per line.

This module is imported with the first line that is logged: structlog loads a library for terminals, which takes longer
than a tenth of a start.
"""

from __future__ import annotations

import logging

import structlog

from patchbay.activity.call_recording import CURRENT_CALL
from patchbay.coordination.nodes import own_name

SHARED: tuple[structlog.typing.Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)


def make_formatter(style: str) -> logging.Formatter:
    """Return the formatter of one style, `console` or `json`."""
    last: list[structlog.typing.Processor]
    if style == "console":
        last = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        last = [
            _add_node,
            _add_call,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _add_node(logger: logging.Logger, method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the process that writes a line, by the name that `patchbay nodes` and the runs of schedules have."""
    return {**line, "node": own_name()}


def _add_call(logger: logging.Logger, method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the call in which a line is written, as its record names it."""
    call = CURRENT_CALL.get()
    return line if call is None else {**line, "call": call.describe()}
