"""The tools, resources and prompts on the page of a server: the search in them, their pages, and the selected one.

A page of many entries has each entry as one line with a link; only the selected entry and the first one have their
schemas and forms. A script of the page loads the others when the reader opens them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from patchbay.errors import PatchbayError
from patchbay.web.site.answers import check_number
from patchbay.web.site.data import ITEMS_PER_PAGE

MAX_FIND_CHARACTERS = 200
"""Characters of a search in the entries of a server, at most."""

MAX_WHOLE_ENTRIES = 8
"""Entries of a server that its page has with schemas and forms; a page of more entries has lines and links."""

MAX_OPEN_TOOLS = 3
"""Tools of a server whose page opens the first tool."""

KINDS = ("tool", "resource", "prompt")


class UnknownEntry(PatchbayError):
    """A server has no tool, resource or prompt of this name."""

    code, status = -32602, 404

    def __init__(self, server: str, kind: str, key: str) -> None:
        super().__init__(f"the server {server} has no {kind} {key[:200]!r}")


@dataclass(frozen=True)
class EntryPage:
    """One page of the entries of a server.

    Each of `rows` is an entry of `Site.detail` with `kind`, `key` (its name or URI), `place` (its number among its
    kind, from 1), `is_whole` (shown with its schema and form) and `is_open`.
    """

    rows: list[dict[str, Any]]
    number: int
    pages: int
    has_many: bool
    """Whether the server has more than MAX_WHOLE_ENTRIES entries, also those that a search leaves out."""
    find: str
    selected: dict[str, Any] | None

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The entries of one kind on this page."""
        return [row for row in self.rows if row["kind"] == kind]


def entry_link(kind: str, key: str, place: int) -> str:
    """The query and fragment that select an entry on the page of its server: `?tool=say#tool-1`."""
    return f"?{kind}={quote(key, safe='')}#{kind}-{place}"


def page_entries(server: Mapping[str, Any], args: Mapping[str, str]) -> EntryPage:
    """The page of entries that a request asks for.

    `args` may have `find` (words of a search), `page` (a number), and one of `tool`, `resource`, `prompt`: the name or
    URI of the selected entry, whose page is taken. Raises UnknownEntry, InvalidParams for an invalid page number.
    """
    rows = _number_entries(server)
    wanted = next(((kind, args[kind]) for kind in KINDS if args.get(kind)), None)
    selected = next((row for row in rows if (row["kind"], row["key"]) == wanted), None)
    if wanted and selected is None:
        raise UnknownEntry(server["name"], *wanted)
    find = "" if selected else args.get("find", "").strip()[:MAX_FIND_CHARACTERS]
    found = [row for row in rows if _has_words(row, find)]
    pages = max(1, -(-len(found) // ITEMS_PER_PAGE))
    chosen = str(found.index(selected) // ITEMS_PER_PAGE + 1) if selected else args.get("page", "1")
    number = check_number("page", chosen, pages)
    shown = found[(number - 1) * ITEMS_PER_PAGE : number * ITEMS_PER_PAGE]
    has_many, has_few_tools = len(rows) > MAX_WHOLE_ENTRIES, len(server["tools"]) <= MAX_OPEN_TOOLS
    for row in shown:
        is_first = row is shown[0]
        row["is_open"] = row is selected or (selected is None and is_first and row["kind"] == "tool" and has_few_tools)
        row["is_whole"] = not has_many or is_first or row["is_open"]
    return EntryPage(shown, number, pages, has_many, find, selected)


def _number_entries(server: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups = (server["tools"], [*server["resources"], *server["templates"]], server["prompts"])
    return [
        {**row, "kind": kind, "key": row["uri"] if kind == "resource" else row["name"], "place": place}
        for kind, group in zip(KINDS, groups, strict=True)
        for place, row in enumerate(group, 1)
    ]


def _has_words(entry: Mapping[str, Any], find: str) -> bool:
    """Whether the name, URI, title or description of an entry contains each word of `find`, in any case."""
    text = " ".join(str(entry[key] or "") for key in ("name", "uri", "title", "description")).casefold()
    return all(word in text for word in find.casefold().split())
