"""A program that writes to a library without end and says what has been acknowledged, line by line."""

from __future__ import annotations

import sys
from pathlib import Path

from patchbay.documents.collection import Library

DOCUMENTS = 30


def main(root: str, begin: int, count: int) -> None:
    with Library(Path(root)) as library:
        for number in range(begin, begin + count):
            key = f"specs/p{number % 3}/{number % DOCUMENTS}.md"
            body = f"{number}\n" + f"pumpkin{number} " * 500
            if number < DOCUMENTS:
                cid = library.create(key, {"title": f"Document {number}"}, body).row.cid
            else:
                cid = library.update(key, {"n": number}, body).document.row.cid
            sys.stdout.write(f"{number} {key} {cid}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
