"""Errors of commands: one sentence on standard error, and the exit code of the class of the error (`exit_codes.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import exit_codes
from patchbay.cli.broken_pipe import BrokenOutputPipe, discard_output
from patchbay.cli.messages import fail
from patchbay.errors import PatchbayError


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with an exit code when the block raises; print an error as one sentence."""
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, problem.exit_code)
    except KeyboardInterrupt:
        fail("interrupted", exit_codes.INTERRUPTED)
    except (BrokenOutputPipe, BrokenPipeError):
        discard_output()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:  # such as a full disk behind standard output
        discard_output()
        place = f"{problem.filename}: " if problem.filename is not None else ""
        fail(f"{place}input or output failed ({problem.strerror or problem})", exit_codes.FAILED)
