"""A failure of the hub itself, as the caller hears of it: a number that the log has too, and nothing else.

Source: THREATS 1.1 (information leak in errors).
"""

from __future__ import annotations

import logging
import secrets

from patchbay.errors import PatchbayError


def incident(log: logging.Logger, where: str) -> PatchbayError:
    """The problem to answer with for the exception that is being handled, which goes to the log with its trace.

    `where` ends the log's line, as in "in a task of notes" or "while answering tools/call".
    """
    number = secrets.token_hex(6)
    log.exception("incident %s %s", number, where)
    return PatchbayError(f"internal error (incident {number})")
