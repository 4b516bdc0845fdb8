"""A program that copies a store and may be killed: python -m tests.stores.copying_process FOLDER ADDRESS"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from patchbay.stores import open_store
from patchbay.stores.copying import copy_store


def report(what: str, count: int) -> None:
    """Print a line for each batch."""
    sys.stdout.write(f"{what} {count}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with closing(open_store("sqlite", Path(sys.argv[1]))) as source, closing(open_store(sys.argv[2], Path())) as target:
        copy_store(source, target, report)
