"""Errors of commands: a sentence on standard error, the next step, and the exit code of the class of the error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import exit_codes
from patchbay.cli.terminal.broken_pipe import BrokenOutputPipe, discard_output
from patchbay.cli.terminal.messages import fail
from patchbay.client.errors import CredentialsRefused, NoMcpServer, NotServed, ServerTimeout, SignInNeeded, Unreachable
from patchbay.errors import PatchbayError, UnavailableServer, UnknownServer
from patchbay.raised.forms import format_raised, read_raised

NEXT_STEPS: tuple[tuple[type[PatchbayError], str], ...] = (
    (UnavailableServer, "`patchbay show NAME` says what is wrong; `patchbay enable NAME` switches a server on"),
    (UnknownServer, "`patchbay list` shows the servers"),
    (ServerTimeout, "wait longer with --timeout, or with --start-timeout while a package is fetched"),
    (CredentialsRefused, "send a valid key; the operator of a Patchbay hub makes one with `patchbay key new NAME`"),
    (SignInNeeded, "run the command in a terminal"),
    (NotServed, "check the name in the address, and ask the operator of the server whether your key has access to it"),
    (NoMcpServer, "use the address of an MCP server; that of an HTTP API begins with openapi+"),
    (Unreachable, "check the address, and that the server runs"),
)
"""The next step for a class of errors; the first class that fits decides."""


def describe_failure(problem: PatchbayError) -> str:
    """Return the message of an error and, when the message names no command, a line with the next step.

    A hub adds for its operator what the code of an author raised.
    """
    if isinstance(problem.data, dict) and (raised := read_raised(problem.data)):
        return "\n".join([problem.message, *format_raised(raised)])
    if "`" in problem.message:
        return problem.message
    step = next((step for kind, step in NEXT_STEPS if isinstance(problem, kind)), "")
    return f"{problem.message}\nNext: {step}" if step else problem.message


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with an exit code when the block raises; print an error with its next step."""
    try:
        yield
    except PatchbayError as problem:
        fail(describe_failure(problem), problem.exit_code)
    except KeyboardInterrupt:
        fail("interrupted", exit_codes.INTERRUPTED)
    except (BrokenOutputPipe, BrokenPipeError):
        discard_output()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:  # such as a full disk behind standard output
        discard_output()
        place = f"{problem.filename}: " if problem.filename is not None else ""
        fail(f"{place}input or output failed ({problem.strerror or problem})", exit_codes.FAILED)
