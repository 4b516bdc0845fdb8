"""The command line: `patchbay serve`, `patchbay stdio`, `patchbay settings`. Only this folder knows click.

Exit codes are in `exits.py`; every problem of the user's making is one sentence on standard error.
"""

from patchbay.cli.commands import main

__all__ = ["main"]
