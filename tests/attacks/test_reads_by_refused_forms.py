"""A reader without the right to change anything sends forms that the hub refuses, and reads the page that comes back.

A page that answers a refused form keeps the text that was typed. Everything else in it must be what GET shows to the
same reader (CWE-200, exposure of information to an actor without the right to it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from patchbay.web.openapi.routes import ALL_ROUTES
from tests.access.team import INLINE, NOTES, NOTES_CONFIG, new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.web.browsing import BROWSER

SHOWN_BY_FORMS = {"Origin": "http://localhost", **BROWSER}
"""The headers by which the hub takes a form for one of its own pages, and by which a program asks for a page."""

PLACES = sorted({row.path for row in ALL_ROUTES if row.method == "POST"})

SERVERS = {
    "vault.py": 'def open_cellar(lamp: str = "x") -> str:\n    """Go down to the silver."""\n    return lamp\n',
    "vault.mcp.json": '{"auto_discover": true, "isolation": "inline", "description": "Spoons and forks."}',
    "silver.json": orjson.dumps(
        {
            "kind": "toolset",
            "description": "Polish for the butler.",
            "tools": {"shine": {"from": "vault.open_cellar", "arguments": {"lamp": {"value": "brass-lamp"}}}},
        }
    ).decode(),
    "notes.py": NOTES,
    "notes.mcp.json": orjson.dumps(NOTES_CONFIG).decode(),
    "lone.py": 'def lone() -> str:\n    """Be alone."""\n    return "alone"\n',
    "lone.mcp.json": INLINE,
}
GRANTS = {
    "groups": {"cellarers": ["zelda@example.org"]},
    "grants": [
        {"to": ["cellarers"], "may": ["call"], "on": ["vault"]},
        {"to": ["key:narrow"], "may": ["see", "call", "read"], "on": ["lone"]},
    ],
}
HIDDEN = (
    *("open_cellar", "Go down to the silver", "Spoons and forks", "Polish for the butler", "brass-lamp"),
    *("zelda@example.org", "cellarers", "key:spare", "delete_note", "the diary"),
)
"""Words of servers, toolsets, grants and keys. No request of a test has one of them."""

FORM = {
    **{"source": '{"grants": []}', "base": "x", "open": "vault", "choose:*": "on", "name": "x", "action": "check"},
    **{"text": "{}", "shown": "{}", "definition": "{}", "path": "a.md", "as": "key:narrow", "had": "", "why": "y"},
}


@dataclass
class Reader:
    """Somebody without the right to change anything, at a hub."""

    hub: Hub
    headers: dict[str, str]

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Any:
        program = self.hub.app.test_client()
        return program.open(path, method=method, data=form, headers=SHOWN_BY_FORMS | self.headers)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    shared = team_hub(tmp_path_factory.mktemp("shared"), SERVERS)
    own = team_hub(tmp_path_factory.mktemp("own"), SERVERS, access="personal")
    for hub in (shared, own):
        set_grants(hub, GRANTS)
        new_key(hub, "spare")
    yield {
        "a stranger at a shared hub": Reader(shared, {}),
        "a narrow key at a shared hub": Reader(shared, new_key(shared, "narrow")),
        "a stranger at a personal hub": Reader(own, {}),
        "an operator with an old page": Reader(shared, {}),
    }
    shared.close()
    own.close()


def list_paths(place: str) -> list[str]:
    """The path of a route for each server that the reader may not see; the path itself for a route without names."""
    return sorted({re.sub(r"<[^>]+>", name, place) for name in ("vault", "silver", "notes")})


@pytest.mark.parametrize(
    "reader", ["a stranger at a shared hub", "a narrow key at a shared hub", "a stranger at a personal hub"]
)
@pytest.mark.parametrize("place", PLACES)
def test_the_answer_to_a_refused_form_shows_nothing_that_get_hides(
    readers: dict[str, Reader], place: str, reader: str
) -> None:
    for path in list_paths(place):
        shown = readers[reader].ask("GET", path).get_data(as_text=True)
        hidden = [words for words in HIDDEN if words not in shown]
        assert hidden, "GET must hide something from this reader"
        answer = readers[reader].ask("POST", path, FORM).get_data(as_text=True)
        assert [words for words in hidden if words in answer] == [], path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        *[("/access", words) for words in ("open_cellar", "zelda@example.org", "key:spare")],
        *[("/toolsets/new", words) for words in ("open_cellar", "Go down to the silver", "delete_note")],
        *[("/toolsets/silver", words) for words in ("brass-lamp", "Polish for the butler")],
    ],
)
def test_the_operator_with_an_old_page_gets_everything_again(readers: dict[str, Reader], path: str, words: str) -> None:
    """The forms of the test above lead to pages that have the hidden words, for somebody who may read them."""
    hub = readers["an operator with an old page"].hub
    hub.log_in()
    answer = hub.client.post(path, data=FORM, headers=BROWSER)
    assert answer.status_code in (400, 403) and words in answer.text
    hub.client = hub.app.test_client()


def test_a_stranger_whose_session_ended_keeps_the_text_of_the_grants(readers: dict[str, Reader]) -> None:
    answer = readers["a stranger at a personal hub"].ask("POST", "/access", FORM)
    assert answer.status_code == 401 and "Your text is kept below" in answer.text
    assert "{&#34;grants&#34;: []}" in answer.text and "only the operator sees the table" in answer.text
