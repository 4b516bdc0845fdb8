"""The command line of scripts that write one file of the repository; `--check` compares and writes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(
    file: Path, make: Callable[[], str], description: str | None, arguments: Sequence[str] | None = None
) -> int:
    """Write the text that `make` returns to a file, or compare both with `--check`; return the exit code.

    The code is 1 when the file is missing or has another text. `arguments` are those of the command line by default;
    argparse ends the program with 2 for unknown ones, and with 0 after `--help`, and nothing is written.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the file is stale; write nothing")
    is_check = parser.parse_args(arguments).check
    text = make()
    if not is_check:
        file.write_text(text, "utf-8")
    elif not file.exists() or file.read_text("utf-8") != text:
        sys.stderr.write(f"{file.relative_to(ROOT)} is stale; run {parser.prog}\n")
        return 1
    return 0
