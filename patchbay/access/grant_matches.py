"""Which grants match nothing that the hub has now, with the nearest that would match. Pure.

A grant may be written before its server exists, so one that matches nothing now is a warning and no error;
`check_pattern` (boot/grants.py) refuses what can never match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchbay.boot.grants import CALL, READ, Grants
from patchbay.catalogue.catalogue import Catalogue
from patchbay.patterns.entries import EVERYTHING, covers, fits
from patchbay.suggestions import find_similar_names

SKILLS = "skill://"
"""How the URIs of skills begin."""

MAX_WARNINGS = 20
"""Warnings about one document, at most."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What one server has: the names of its tools, and the URIs, URI templates and names that can be read.

    `is_complete` is False when the types of its events and its skills are left out of `readable`.
    """

    tools: Sequence[str]
    readable: Sequence[str]
    is_complete: bool = True

    def of(self, action: str) -> list[str]:
        """The entries that an action is about; those of every kind for an action on the server."""
        tools = [] if action == READ else list(self.tools)
        return tools if action == CALL else [*tools, *self.readable]

    def may_fit(self, action: str, pattern: str) -> bool:
        """Whether a pattern fits an entry, a URI that a template gives, or something that is left out here."""
        if any(fits(pattern, one) for one in self.of(action)):
            return True
        if action == CALL:
            return False
        is_left_out = not self.is_complete and ("://" not in pattern or pattern.startswith(SKILLS))
        templates = [one.partition("{")[0] for one in self.readable if "{" in one]
        return is_left_out or any(pattern.startswith(beginning) for beginning in templates)


def entry_finder(catalogue: Catalogue) -> Callable[[str], Entries | None]:
    """Return the function that gives the entries of a server of a catalogue; None for one whose entries are not known.

    These are servers that are off, broken, or never answered.
    """

    def find(name: str) -> Entries | None:
        server = catalogue.find_any(name)
        if server is None:
            return None
        skills = [one.uri for one in server.skills.values()]
        readable = [*server.resources, *server.templates, *server.prompts, *server.events, *skills]
        return Entries(list(server.tools), readable) if server.tools or readable else None

    return find


def describe_unmatched(
    scopes: Iterable[str], names: Sequence[str], find_entries: Callable[[str], Entries | None]
) -> list[str]:
    """Return a sentence for each scope (`call:notes.search`) that matches nothing now.

    `names` are all servers; `find_entries` gives the entries of one, None when they are not known.
    """
    found = (_describe(scope.partition(":")[0], scope.partition(":")[2], names, find_entries) for scope in scopes)
    return [sentence for sentence in found if sentence][:MAX_WARNINGS]


def describe_unmatched_rows(
    grants: Grants, names: Sequence[str], find_entries: Callable[[str], Entries | None]
) -> list[str]:
    """Return a sentence for each pattern of a document that matches nothing now."""
    found = []
    for row in [*grants.grants, *grants.denials]:
        actions = row.may if row in grants.grants else ("",)
        for pattern in row.on:
            sentences = [_describe(action, pattern, names, find_entries, f"{row.place}: ") for action in actions]
            found += sentences[:1] if all(sentences) else []
    return found[:MAX_WARNINGS]


def _describe(
    action: str, pattern: str, names: Sequence[str], find_entries: Callable[[str], Entries | None], place: str = ""
) -> str:
    """Return the sentence about one pattern; empty when it matches something, or when that is not known.

    `place` names the row of a document; without one the pattern is a scope, which is written with its action.
    """
    if not pattern or pattern == EVERYTHING or any(covers(pattern, name, "") for name in names):
        return ""
    sign = "" if place else f"{action}:"
    said = f"{place}{sign}{pattern} matches nothing now"
    if "." not in pattern:
        near = [f"{sign}{name}" for name in find_similar_names(pattern, names)]
        return f"{said}: there is no server {pattern}{_suggest(near)}"
    fitting = [(name, entry) for server, entry in _split(pattern) for name in names if fits(server, name)]
    near = []
    for name, entry in fitting:
        entries = find_entries(name)
        if entries is None or entries.may_fit(action, entry):
            return ""
        near += [f"{sign}{name}.{one}" for one in find_similar_names(entry, entries.of(action))]
    if fitting:
        what = {CALL: "no tool", READ: "nothing to read"}.get(action, "nothing")
        return f"{said}: {fitting[0][0]} has {what} of this name{_suggest(near)}"
    server, entry = next(_split(pattern))
    near = [f"{sign}{name}.{entry}" for name in find_similar_names(server, names)]
    return f"{said}: there is no server {server}{_suggest(near)}"


def _split(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the server part and the entry part of a pattern, split at each of its dots."""
    for place, letter in enumerate(pattern):
        if letter == ".":
            yield pattern[:place], pattern[place + 1 :]


def _suggest(near: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(near[:2])}?" if near else ""
