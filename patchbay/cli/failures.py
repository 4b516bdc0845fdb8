"""Errors of commands: one sentence on standard error, and an exit code (`exit_codes.py`).

EXIT_CODES uses names of classes, so that commands without a server need not import the client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import exit_codes
from patchbay.cli.broken_pipe import BrokenOutputPipe, discard_output
from patchbay.cli.messages import fail
from patchbay.errors import ContentError, InvalidParams, PatchbayError, UnknownServer

EXIT_CODES = {
    "ServerTimeout": exit_codes.OVERDUE,
    "SignInNeeded": exit_codes.SIGN_IN,
    "Unreachable": exit_codes.UNREACHABLE,
    "ContractError": exit_codes.CHANGED,
}
"""Exit codes by the name of the error class; the code searches from the subclass to its base classes."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with an exit code when the block raises; print an error as one sentence."""
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, exit_code(problem))
    except KeyboardInterrupt:
        fail("interrupted", exit_codes.INTERRUPTED)
    except (BrokenOutputPipe, BrokenPipeError):
        discard_output()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:  # such as a full disk behind standard output
        discard_output()
        place = f"{problem.filename}: " if problem.filename is not None else ""
        fail(f"{place}input or output failed ({problem.strerror or problem})", exit_codes.FAILED)


def exit_code(problem: PatchbayError) -> int:
    """The exit code of an error."""
    for kind in type(problem).__mro__:
        if kind.__name__ in EXIT_CODES:
            return EXIT_CODES[kind.__name__]
    return exit_codes.USAGE if isinstance(problem, (InvalidParams, ContentError, UnknownServer)) else exit_codes.FAILED
