"""Failures of the hub itself: the caller gets only a number, and the log has the details under the same number.

Source: CWE-209 (error messages with sensitive information).
"""

from __future__ import annotations

import logging
import secrets

from patchbay.errors import PatchbayError


def incident(log: logging.Logger, where: str) -> PatchbayError:
    """Log the exception that is being handled, with its traceback; return the error for the caller.

    `where` ends the line in the log, as in "in a task of notes" or "while answering tools/call".
    """
    number = secrets.token_hex(6)
    log.exception("incident %s %s", number, where)
    return PatchbayError(f"internal error (incident {number})")
