"""Grants that match nothing now are named with the nearest that would match (issue 47 item 9)."""

from __future__ import annotations

import orjson
import pytest

from patchbay.access.grant_matches import MAX_WARNINGS, Entries, describe_unmatched, describe_unmatched_rows
from patchbay.boot.grants import parse_grants
from patchbay.topics import ACCESS

SERVERS = {
    "git": Entries(["git_log", "git_status"], []),
    "notes": Entries(["search"], ["plans://plan", "notes://{id}"]),
    "bash.tools": Entries(["run"], []),
    "down": None,
}


def find_in(scope: str) -> list[str]:
    return describe_unmatched([scope], list(SERVERS), SERVERS.get)


@pytest.mark.parametrize(
    "scope",
    [
        *("see", "call", "call:*", "call:git", "call:g*", "call:git.*", "call:git.git_log", "call:*.search"),
        *(
            "call:git.git_*",
            "read:notes.plans://plan",
            "read:notes.notes://7",
            "see:notes.search",
            "call:bash.tools",
            "call:bash.tools.run",
        ),
        *("call:down.anything", "read:*.plans://p*"),
    ],
)
def test_a_grant_that_matches_something_or_may_do_so_gives_no_warning(scope: str) -> None:
    assert find_in(scope) == []


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ("call:gti", "call:gti matches nothing now: there is no server gti; did you mean call:git?"),
        (
            "call:git.git_logs",
            "call:git.git_logs matches nothing now: git has no tool of this name; did you mean call:git.git_log?",
        ),
        (
            "call:note.search",
            "call:note.search matches nothing now: there is no server note; did you mean call:notes.search?",
        ),
        (
            "read:notes.plans://plane",
            "read:notes.plans://plane matches nothing now: notes has nothing to read of this name; did you mean"
            " read:notes.plans://plan?",
        ),
        ("call:notes.plans://plan", "call:notes.plans://plan matches nothing now: notes has no tool of this name"),
        ("read:zzz9", "read:zzz9 matches nothing now: there is no server zzz9"),
    ],
)
def test_a_grant_that_matches_nothing_names_the_nearest(scope: str, sentence: str) -> None:
    assert find_in(scope) == [sentence]


def test_the_warnings_about_a_document_name_the_row() -> None:
    rows = {
        "grants": [
            {"to": ["ann"], "may": ["see", "call"], "on": ["notes.search", "gti"]},
            {"to": ["ann"], "may": ["see", "read"], "on": ["notes.plans://plan"]},
        ],
        "denials": [{"to": ["*"], "on": ["notes.delete_*"]}],
    }
    grants = parse_grants(orjson.dumps(rows), ACCESS)
    assert grants is not None
    assert describe_unmatched_rows(grants, list(SERVERS), SERVERS.get) == [
        "grant 1: gti matches nothing now: there is no server gti; did you mean git?",
        "denial 1: notes.delete_* matches nothing now: notes has nothing of this name",
    ]


def test_what_a_hub_does_not_list_gives_no_warning() -> None:
    listed = Entries(["search"], ["notes://plan"], is_complete=False)
    assert (
        describe_unmatched(["read:notes.changed", "read:notes.skill://x/SKILL.md"], ["notes"], lambda _: listed) == []
    )
    assert len(describe_unmatched(["read:notes.notes://plane"], ["notes"], lambda _: listed)) == 1


def test_the_number_of_warnings_is_limited() -> None:
    scopes = [f"call:absent{n}" for n in range(MAX_WARNINGS + 5)]
    assert len(describe_unmatched(scopes, list(SERVERS), SERVERS.get)) == MAX_WARNINGS


def test_what_is_not_listed_or_comes_from_a_template_is_no_tool() -> None:
    """A grant to call is about tools, which are all listed; one to read may fit an event or what a template gives."""
    listed = Entries(["search"], ["notes://{id}"], is_complete=False)
    for pattern in ("serch", "notes://7"):
        [sentence] = describe_unmatched([f"call:notes.{pattern}"], ["notes"], lambda _: listed)
        assert sentence.startswith(f"call:notes.{pattern} matches nothing now: notes has no tool of this name")
        assert describe_unmatched([f"read:notes.{pattern}"], ["notes"], lambda _: listed) == []
