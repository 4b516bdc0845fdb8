"""The table of rights says of each cell what the hub decides, and where a right comes from."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay.access.decisions import Object, rights_of
from patchbay.access.principals import Principal
from patchbay.boot.grants import Grants, parse_grants
from patchbay.web.access.grant_table import (
    MAX_ENTRIES,
    SERVERS_PER_PAGE,
    Cell,
    Entries,
    Table,
    View,
    build_table,
    describe_rest,
)

DOCUMENT = {
    "groups": {"team": ["ann", "ben"]},
    "grants": [
        {"to": ["team"], "may": ["see", "call", "read"], "on": ["notes"]},
        {"to": ["ann"], "may": ["call"], "on": ["bash", "bash.tools.run"], "call": "approve"},
        {"to": ["ben", "*"], "may": ["read"], "on": ["notes.notes://plan", "no*"]},
        {"to": ["root"], "may": ["operate"], "on": ["*"]},
    ],
    "denials": [{"to": ["ben"], "on": ["notes.delete_*"]}],
    "quotas": [{"to": ["*"], "calls_per_minute": 10}],
}
ENTRIES = {
    "notes": Entries(["search", "delete_note"], ["notes://plan"]),
    "bash": Entries(["run"], []),
    "bash.tools": Entries(["run"], []),
}


def read(document: Any) -> Grants:
    found = parse_grants(orjson.dumps(document), "access")
    assert found is not None
    return found


def table(who: str = "", open: str = "", find: str = "", page: int = 1) -> Table:
    return build_table(read(DOCUMENT), ENTRIES, View(who, find, open, page))


def cells(found: Table, pattern: str) -> dict[str, Cell]:
    [row] = [each for each in found.rows if each.pattern == pattern]
    return {cell.right: cell for cell in row.cells[0]}


def test_a_right_by_name_is_its_own_and_one_through_a_group_or_a_wider_pattern_is_given() -> None:
    assert {right: cell.state for right, cell in cells(table("team"), "notes").items()} == {
        **dict.fromkeys(("see", "call", "read"), "own"),
        "ask": "none",
    }
    assert cells(table("ann"), "notes")["call"] == Cell("call", "given", "grant 1 to the group team on notes")
    assert cells(table("ann", "notes"), "notes.search")["call"].state == "given"
    assert cells(table("ann"), "no*")["read"] == Cell("read", "given", "grant 3 to everyone on no*")
    assert cells(table("root"), "bash")["read"].because == "grant 4, which makes an administrator"


def test_a_denial_is_shown_where_a_grant_would_give_the_right() -> None:
    assert cells(table("ben", "notes"), "notes.delete_note")["call"] == Cell("call", "denied", "denial 1")
    assert cells(table("ann", "notes"), "notes.delete_note")["call"].state == "given"


def test_asking_is_shown_and_a_grant_that_does_not_ask_ends_it() -> None:
    assert {right: cell.state for right, cell in cells(table("ann"), "bash").items()} == {
        **{"see": "none", "call": "own", "read": "none"},
        "ask": "own",
    }
    document = DOCUMENT | {"grants": [*DOCUMENT["grants"], {"to": ["*"], "may": ["call"], "on": ["*"]}]}
    found = build_table(read(document), ENTRIES, View("ann"))
    assert cells(found, "bash")["ask"] == Cell("ask", "own", "grant 5 to everyone on everything")


@pytest.mark.parametrize("who", ["ann", "ben", "root", "zoe", "key:robot"])
def test_the_table_agrees_with_the_decisions_of_the_hub(who: str) -> None:
    rights = rights_of(Principal(who), read(DOCUMENT))
    for server in ENTRIES:
        found = table(who, server)
        for row in found.rows:
            if row.kind in ("all", "pattern") or (row.kind == "server" and row.pattern != server):
                continue
            entry = row.pattern[len(server) + 1 :]
            for cell in row.cells[0]:
                if cell.right == "ask":
                    assert (cell.state != "none" and not (cell.state == "own" and cell.because)) is (
                        rights.asks_for_approval(server, entry)
                    )
                else:
                    allowed = rights.decide(cell.right, Object(server, entry)).allowed
                    assert (cell.state in ("own", "given")) is allowed, (row.pattern, cell)


def test_patterns_with_wildcards_and_of_absent_servers_have_rows_of_their_own() -> None:
    assert [(row.pattern, row.kind) for row in table().rows] == [
        *(("*", "all"), ("no*", "pattern")),
        *(("bash", "server"), ("bash.tools", "server"), ("notes", "server")),
    ]
    gone = read({"grants": [{"to": ["ann"], "may": ["call"], "on": ["gone.tool"]}]})
    assert ("gone.tool", "pattern") in [(row.pattern, row.kind) for row in build_table(gone, ENTRIES, View()).rows]


def test_an_opened_server_has_its_tools_and_what_can_be_read() -> None:
    rows = [(row.pattern, row.kind, [cell.right for cell in row.cells[0]]) for row in table("ann", "notes").rows]
    assert rows[-3:] == [
        ("notes.search", "tool", ["call", "ask"]),
        ("notes.delete_note", "tool", ["call", "ask"]),
        ("notes.notes://plan", "readable", ["read"]),
    ]
    assert [row.owned for row in table("ben").rows if row.pattern == "notes"] == [1]


def test_many_servers_and_many_tools_are_shown_in_parts_and_are_found() -> None:
    tools = [f"tool_{n}" for n in range(MAX_ENTRIES + 7)]
    entries = {f"server_{n:03}": Entries(tools, []) for n in range(300)}
    found = build_table(read(DOCUMENT), entries, View(page=20))
    assert found.pages == 20 and found.page == 20
    assert sum(row.kind == "server" for row in found.rows) == SERVERS_PER_PAGE
    opened = build_table(read(DOCUMENT), entries, View(open="server_217"))
    assert opened.page == 15 and opened.hidden == 7
    assert sum(row.kind == "tool" for row in opened.rows) == MAX_ENTRIES
    narrow = build_table(read(DOCUMENT), entries, View(open="server_217", find="tool_56"))
    assert [row.label for row in narrow.rows if row.kind == "tool"] == ["tool_56"]


def test_what_the_table_does_not_show_is_named() -> None:
    assert describe_rest(read(DOCUMENT)) == [
        "The grants of administrators (root) are in the text only",
        "denial 1 forbids notes.delete_* to ben; it is in the text only",
        "The members of groups are in the text only",
        "Limits (1 in `quotas`) are in the text only",
    ]
    assert describe_rest(read({"grants": []})) == []
