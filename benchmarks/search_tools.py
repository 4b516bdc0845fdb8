"""Quality of `search_tools`: questions such as people ask, against the tools of forty packages of PyPI and npm.

    python -m benchmarks.search_tools [--misses]

`tool_lists.json` has the lists of the packages, as they answered `tools/list` in November 2026: names, titles,
descriptions and the texts of the arguments. `tool_questions.json` was written before the search was changed for it,
from the names of the tools and never from results; several answers are one person's choice among tools that fit.
`benchmarks/search.py` says how ranks count. FTS5 has the tokenizer `porter unicode61`, a column for names with ten
times the weight, and any of the words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.search import Search, measure_means, print_means, report_miss, split_words
from patchbay.catalogue.search.tool_search import ToolSearch, searchable_texts
from patchbay.descriptors import Descriptor
from patchbay.sqlite import sqlite3

LISTS = Path(__file__).with_name("tool_lists.json")
QUESTIONS = Path(__file__).with_name("tool_questions.json")
GOAL = 0.93


def list_tools() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each tool as `package/name`, as the questions name it, and as a toolset lists it: `package__name`."""
    for package, tools in json.loads(LISTS.read_text("utf-8")).items():
        for tool in tools:
            yield f"{package}/{tool['name']}", {**tool, "name": f"{package}__{tool['name']}"}


def search_hub() -> Search:
    """Return the search that answers `search_tools`."""
    names = {wire["name"]: answer for answer, wire in list_tools()}
    search = ToolSearch({wire["name"]: Descriptor("tool", wire["name"], wire) for _, wire in list_tools()})
    return lambda question: [names[tool["name"]] for tool in search.search(question, 10)["tools"]]


def search_fts5() -> Search:
    """Return a search with SQLite's FTS5, as its documentation shows it."""
    connection = sqlite3.connect(":memory:")
    columns = "answer UNINDEXED, name, body, tokenize='porter unicode61'"
    connection.execute(f"CREATE VIRTUAL TABLE found USING fts5({columns})")
    for answer, wire in list_tools():
        texts = searchable_texts(wire)
        body = "\n".join((texts["title"], texts["description"], texts["arguments"]))
        connection.execute("INSERT INTO found VALUES (?, ?, ?)", (answer, texts["name"].replace("_", " "), body))

    def search(question: str) -> list[str]:
        expression = " OR ".join('"' + word.replace('"', '""') + '"' for word in split_words(question))
        sql = "SELECT answer FROM found WHERE found MATCH ? ORDER BY bm25(found, 0, 10, 1) LIMIT 10"
        return [answer for (answer,) in connection.execute(sql, (expression,))]

    return search


def main(misses: bool) -> int:
    """Measure both searches and print the means; return 1 when the goal is missed."""
    ours = measure_means(search_hub(), report_miss if misses else None, QUESTIONS)
    print_means({"hub": ours, "FTS5": measure_means(search_fts5(), asked=QUESTIONS)})
    return 0 if list(ours.values())[-1] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main("--misses" in sys.argv))
