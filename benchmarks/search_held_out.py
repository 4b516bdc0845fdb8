"""Questions that no search was chosen with: about Django's documents, and about the tools of forty packages.

    python -m benchmarks.search_held_out [--embeddings FOLDER] [--misses]

The questions were written from what Django's documents say and from names of tools, after the weights of words and
meaning had been fixed, and were first asked then. They are a test only while no weight is changed for them.
`benchmarks/search.py` says how ranks count; the columns are those of `benchmarks/search_meaning.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import search_second
from benchmarks.search import report_miss
from benchmarks.search_meaning import compare_documents, compare_tools

PYPI = ("django==5.2.8",)
ENDINGS = (".txt",)
QUESTIONS = Path(__file__).with_name("search_held_out_questions.json")
TOOL_QUESTIONS = Path(__file__).with_name("tool_questions_held_out.json")


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embeddings", default="")
    parser.add_argument("--misses", action="store_true", help="print each question whose first answer is not right")
    given = parser.parse_args()
    report = report_miss if given.misses else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.stdout.write(f"{search_second.unpack(folder, PYPI, (), ENDINGS, 'docs')} documents of {', '.join(PYPI)}\n")
        compare_documents(folder, ENDINGS, QUESTIONS, given.embeddings, report)
    compare_tools(given.embeddings, TOOL_QUESTIONS, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
