"""Notes the start of a program, then becomes it: `python -S counted_start.py LOG COMMAND [ARGUMENT]...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
        log.write("start\n")
    os.execvp(sys.argv[2], sys.argv[2:])
