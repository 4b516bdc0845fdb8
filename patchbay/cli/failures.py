"""How a command ends: a problem is one sentence on standard error and an exit code (`exits.py`).

Which code a problem has is said by its class's name, so that commands without a server need not load the client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import exit_codes
from patchbay.cli.broken_pipe import BrokenOutputPipe, let_go
from patchbay.cli.messages import fail
from patchbay.errors import ContentError, InvalidParams, PatchbayError, UnknownServer

CODES = {
    "ServerTimeout": exit_codes.OVERDUE,
    "SignInNeeded": exit_codes.SIGN_IN,
    "Unreachable": exit_codes.UNREACHABLE,
    "ContractError": exit_codes.CHANGED,
}
"""The client's own problems by name, the narrower ones first."""


@contextmanager
def ending() -> Iterator[None]:
    """Turn whatever ends a command into its exit code, and a problem into one sentence."""
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, code_of(problem))
    except KeyboardInterrupt:
        fail("interrupted", exit_codes.INTERRUPTED)
    except (BrokenOutputPipe, BrokenPipeError):
        let_go()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:  # such as a full disk behind standard output
        let_go()
        place = f"{problem.filename}: " if problem.filename is not None else ""
        fail(f"{place}input or output failed ({problem.strerror or problem})", exit_codes.FAILED)


def code_of(problem: PatchbayError) -> int:
    """The exit code for a problem."""
    for kind in type(problem).__mro__:
        if kind.__name__ in CODES:
            return CODES[kind.__name__]
    return exit_codes.USAGE if isinstance(problem, (InvalidParams, ContentError, UnknownServer)) else exit_codes.FAILED
