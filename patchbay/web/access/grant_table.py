"""The rights of a document of the variable `access` as a table: names in `to` by servers, and their entries. Pure.

A cell says whether a name has a right by a row about exactly this name and pattern (`own`), by a wider row (`given`),
not at all (`none`), or whether a denial takes it away (`denied`). `grant_edits.py` changes own rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchbay.boot.grants import ACTIONS, CALL, OPERATE, READ, Grant, Grants
from patchbay.patterns.entries import EVERYTHING, splits
from patchbay.patterns.uri_spellings import covers_any_spelling, covers_every_spelling
from patchbay.web.access.grant_edits import ASK, RIGHTS

MAX_SHOWN_RIGHTS = 20_000
"""Rights of a document that the table shows, at most: names times patterns, over all rows."""

COLUMNS = 3
"""Names that the table shows at a time, unless the reader chose one."""

SERVERS_PER_PAGE = 15

MAX_ENTRIES = 50
"""Entries of an opened server that the table shows, at most."""

MAX_PATTERNS = 30
"""Patterns with wildcards, and of absent servers, that have a row of their own, at most."""

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Cell:
    """One right of one name on one row. `because` names the grant or denial that decides, empty for an own right."""

    right: str
    state: str
    because: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the pattern that its buttons change, its label, and the cells of each name. `kind` is `all`, `pattern`,
    `server`, `tool` or `readable`; `owned` counts the entries of a server with rights of their own.
    """

    pattern: str
    label: str
    kind: str
    cells: tuple[tuple[Cell, ...], ...]
    owned: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What the reader chose: a name (`who`), a part of names of servers and tools (`find`), one open server, a page."""

    who: str = ""
    find: str = ""
    open: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class Entries:
    """The tools of one server by name, and its resources, templates and prompts by the text that a pattern names."""

    tools: Sequence[str]
    readable: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one view. `names` are all names of the document, `columns` those that are shown.

    `pages` is the number of pages of servers, `hidden` the number of entries of the opened server that are left out.
    """

    names: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Row]
    page: int
    pages: int
    hidden: int = 0
    found: int = 0


class _Column:
    """The rows of a document that say something about one name, ready to be asked for many patterns."""

    def __init__(self, name: str, grants: Grants) -> None:
        self._name = name
        self._exact: dict[str, list[tuple[Grant, str]]] = {}
        self._wide: list[tuple[str, Grant, str]] = []
        for row in grants.grants:
            self._add(row, row.on, _find_way(name, row.to, grants.groups))
        self._denials = [
            (row, way) for row in grants.denials if (way := _find_way(name, row.to, grants.groups)) is not None
        ]

    def _add(self, row: Grant, patterns: Iterable[str], way: str | None) -> None:
        if way is None:
            return
        for pattern in patterns:
            if _WILD.isdisjoint(pattern):
                self._exact.setdefault(pattern, []).append((row, way))
            else:
                self._wide.append((pattern, row, way))

    def cells(self, pattern: str, server: str, entry: str, rights: Iterable[str]) -> tuple[Cell, ...]:
        """Return the cells of one row; `server` is empty for a pattern that is no server or entry."""
        giving = list(self._giving(pattern, server, entry))
        own = self._own_rights(giving, pattern)
        forbidding = next((row for row, _ in self._denials if _forbids(row, pattern, server, entry)), None)
        return tuple(_make_cell(right, own, giving, forbidding, pattern) for right in rights)

    def owns(self, pattern: str) -> bool:
        """Whether a row gives a right to this very name on this very pattern."""
        return any(way == "" and OPERATE not in row.may for row, way in self._exact.get(pattern, ()))

    def _giving(self, pattern: str, server: str, entry: str) -> Iterator[tuple[str, Grant, str]]:
        """Yield the pattern, row and way of each grant that covers a row of the table."""
        for exact in dict.fromkeys((pattern, server) if server else (pattern,)):
            yield from ((exact, row, way) for row, way in self._exact.get(exact, ()))
        for wide, row, way in self._wide:
            if covers_every_spelling(wide, server, entry) if server else wide in (EVERYTHING, pattern):
                yield wide, row, way

    def _own_rights(self, giving: Iterable[tuple[str, Grant, str]], pattern: str) -> set[str]:
        own: set[str] = set()
        for on, row, way in giving:
            if on == pattern and not way and OPERATE not in row.may:
                own |= {ASK if action == CALL and row.asks else action for action in row.may}
        return own - {ASK} if CALL in own else own


def _make_cell(
    right: str, own: set[str], giving: Sequence[tuple[str, Grant, str]], forbidding: Grant | None, pattern: str
) -> Cell:
    action = CALL if right == ASK else right
    sources = [each for each in giving if action in _actions(each[1])]
    if right == ASK and any(not row.asks for _, row, _ in sources):
        plain = next(each for each in sources if not each[1].asks)
        return Cell(right, "own" if ASK in own else "none", _explain(*plain) if ASK in own else "")
    if forbidding is not None and sources and right != ASK:
        return Cell(right, "denied", forbidding.place)
    if right in own or (right == CALL and ASK in own):
        return Cell(right, "own")
    wider = next(iter(sources), None)
    return Cell(right, "none") if wider is None else Cell(right, "given", _explain(*wider))


def _actions(row: Grant) -> Sequence[str]:
    return ACTIONS if OPERATE in row.may else row.may


def _explain(pattern: str, row: Grant, way: str) -> str:
    if row.makes_administrators:
        return f"{row.place}, which makes an administrator"
    if OPERATE in row.may:
        return f"{row.place}, which lets its principals make and change this toolset"
    to = f" to {way}" if way else ""
    return f"{row.place}{to} on {'everything' if pattern == EVERYTHING else pattern}"


def _forbids(row: Grant, pattern: str, server: str, entry: str) -> bool:
    return any(covers_any_spelling(each, server, entry) if server else each in (EVERYTHING, pattern) for each in row.on)


def _find_way(name: str, to: Sequence[str], groups: Mapping[str, frozenset[str]]) -> str | None:
    """Return how a row reaches a name: empty for the name itself, else `everyone` or its group; None if it does not."""
    if name in to:
        return ""
    if name not in groups:
        group = next((each for each in to if name in groups.get(each, ())), None)
        if group is not None:
            return f"the group {group}"
    return "everyone" if EVERYTHING in to else None


def list_names(grants: Grants) -> list[str]:
    """Return the names in `to` of a document and its groups: everyone first, then groups, then the others."""
    named = [name for row in (*grants.grants, *grants.denials) for name in row.to]
    return list(dict.fromkeys([EVERYTHING, *grants.groups, *named]))


def count_rights(grants: Grants) -> int:
    """Return the number of pairs of a name and a pattern in the grants and denials."""
    return sum(len(row.to) * len(row.on) for row in (*grants.grants, *grants.denials))


def build_table(grants: Grants, entries: Mapping[str, Entries], view: View) -> Table:
    """Return the table of a document for the servers with these entries, as a view shows it."""
    names = list_names(grants)
    shown = [view.who] if view.who else names[:COLUMNS]
    columns = [_Column(name, grants) for name in shown]
    servers = [name for name in sorted(entries) if _is_found(view.find, name, entries[name])]
    pages = max(1, -(-len(servers) // SERVERS_PER_PAGE))
    number = min(max(view.page, 1), pages)
    if view.open in servers:
        number = servers.index(view.open) // SERVERS_PER_PAGE + 1
    rows = [_make_row(columns, EVERYTHING, "Every server", "all", "", "")]
    below = _patterns_by_server(grants, entries)
    special = [pattern for pattern in below.pop("", ()) if view.find in pattern]
    rows += [_make_row(columns, pattern, pattern, "pattern", "", "") for pattern in special[:MAX_PATTERNS]]
    hidden = 0
    for name in servers[(number - 1) * SERVERS_PER_PAGE : number * SERVERS_PER_PAGE]:
        owned = sum(any(column.owns(pattern) for column in columns) for pattern in below.get(name, ()))
        rows.append(_make_row(columns, name, name, "server", name, "", owned, name == view.open))
        if name == view.open:
            found, hidden = _entry_rows(columns, name, entries[name], below.get(name, ()), view.find)
            rows += found
    return Table(names, shown, rows, number, pages, hidden, len(servers))


def _is_found(find: str, name: str, entries: Entries) -> bool:
    return find in name or any(find in each for each in entries.tools)


def _make_row(
    columns: Sequence[_Column],
    pattern: str,
    label: str,
    kind: str,
    server: str,
    entry: str,
    owned: int = 0,
    is_open: bool = False,
) -> Row:
    rights = {"tool": (CALL, ASK), "readable": (READ,)}.get(kind, RIGHTS)
    cells = tuple(column.cells(pattern, server, entry, rights) for column in columns)
    return Row(pattern, label, kind, cells, owned, is_open)


def _entry_rows(
    columns: Sequence[_Column], server: str, entries: Entries, named: Iterable[str], find: str
) -> tuple[list[Row], int]:
    """Return the rows of the entries of an opened server, and how many are left out."""
    known = {*entries.tools, *entries.readable}
    absent = [pattern[len(server) + 1 :] for pattern in named if pattern[len(server) + 1 :] not in known]
    listed = [(name, "tool") for name in (*entries.tools, *absent)] + [(name, "readable") for name in entries.readable]
    listed = [each for each in listed if each[0] and not any(letter.isspace() for letter in each[0])]
    wanted = [each for each in listed if find in each[0]] or listed
    rows = [_make_row(columns, f"{server}.{name}", name, kind, server, name) for name, kind in wanted[:MAX_ENTRIES]]
    return rows, max(0, len(wanted) - MAX_ENTRIES)


def _patterns_by_server(grants: Grants, entries: Mapping[str, Entries]) -> dict[str, list[str]]:
    """Return the patterns of the grants by the server whose entry they name; those of no server at the empty name."""
    found: dict[str, list[str]] = {"": []}
    for pattern in dict.fromkeys(each for row in grants.grants for each in row.on):
        if pattern == EVERYTHING or pattern in entries:
            continue
        parts = [server for server, entry in splits(pattern) if server in entries and _WILD.isdisjoint(entry)]
        found.setdefault(parts[0] if parts else "", []).append(pattern)
    return found


def describe_rest(grants: Grants) -> list[str]:
    """Return a sentence for each kind of row of a document that the table shows only in part, or not at all."""
    administrators = [name for row in grants.grants if row.makes_administrators for name in row.to]
    makers = [row for row in grants.grants if OPERATE in row.may and not row.makes_administrators]
    sentences = []
    if administrators:
        sentences.append(f"The grants of administrators ({_list(administrators)}) are in the text only")
    for row in makers[:5]:
        names = _list(row.on)
        sentences.append(f"{row.place} lets {_list(row.to)} make and change toolsets ({names}); it is in the text only")
    for row in grants.denials[:5]:
        sentences.append(f"{row.place} forbids {_list(row.on)} to {_list(row.to)}; it is in the text only")
    if len(grants.denials) > 5:
        sentences.append(f"{len(grants.denials) - 5} more denials are in the text only")
    if grants.groups:
        sentences.append("The members of groups are in the text only")
    if grants.quotas:
        sentences.append(f"Limits ({len(grants.quotas)} in `quotas`) are in the text only")
    return sentences


def _list(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
