"""How a command ends: a problem is one sentence on standard error, and the exit code of its class (`exit_codes.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import exit_codes
from patchbay.cli.broken_pipe import BrokenOutputPipe, let_go
from patchbay.cli.messages import fail
from patchbay.errors import PatchbayError


@contextmanager
def ending() -> Iterator[None]:
    """Turn whatever ends a command into its exit code, and a problem into one sentence."""
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, problem.exit_code)
    except KeyboardInterrupt:
        fail("interrupted", exit_codes.INTERRUPTED)
    except (BrokenOutputPipe, BrokenPipeError):
        let_go()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:  # such as a full disk behind standard output
        let_go()
        place = f"{problem.filename}: " if problem.filename is not None else ""
        fail(f"{place}input or output failed ({problem.strerror or problem})", exit_codes.FAILED)
