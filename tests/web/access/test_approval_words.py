"""Calls that need an approval are described in words: who, what, with which arguments, and the outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchbay.access.approvals import APPROVED, REFUSED, USED, Approval, CallDigest
from patchbay.cid import cid_of
from patchbay.web.access.approval_words import describe_outcome, list_arguments
from patchbay.web.rendering.names import name_caller
from tests.hubs import Hub
from tests.web.browsing import BROWSER
from tests.web.pages.test_home import FILES, ask

CALL = CallDigest("key:ci", "safe", "v", "open_safe", "t", cid_of(b"{}"))
ASKED = Approval("1", CALL, "{}", made=100.0, expires=700.0)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, FILES).log_in()
    hub.catalogue.hub.gate.wait_seconds = 0.0
    yield hub
    hub.close()


@pytest.mark.parametrize(
    ("id", "mode", "words"),
    [
        ("local", "personal", "this machine"),
        ("local", "open", "someone who can reach this hub"),
        ("operator", "shared", "the operator"),
        ("key:ci", "shared", "the key ci"),
        ("schedule:safe.open_safe", "shared", "the schedule of safe.open_safe"),
        ("ann@example.org", "shared", "ann@example.org"),
        ("https://id.example#\u202eann", "shared", "https://id.example#[U+202E]ann (1 hidden character is shown"),
    ],
)
def test_a_caller_has_words(id: str, mode: str, words: str) -> None:
    assert name_caller(id, mode).startswith(words)


@pytest.mark.parametrize(
    ("approval", "now", "words"),
    [
        (ASKED, 200.0, "waits"),
        (ASKED, 700.0, "no decision in time"),
        (replace(ASKED, state=APPROVED, decided=150.0), 200.0, "approved, has not run yet"),
        (replace(ASKED, state=APPROVED, decided=150.0), 800.0, "approved, did not run in time"),
        (replace(ASKED, state=USED, decided=150.0), 200.0, "approved, ran once"),
        (replace(ASKED, state=REFUSED, decided=150.0), 200.0, "refused"),
    ],
)
def test_an_outcome_has_words(approval: Approval, now: float, words: str) -> None:
    assert describe_outcome(approval, now) == words


def test_an_argument_of_each_type_is_a_row_and_a_text_differs_from_a_number() -> None:
    text = '{"big":123456789012345678901234567890,"deep":{"a":["\u202eb"]},"many":5,"no":null,"text":"5\u200b"}'
    rows = [(row["name"], row["value"], row["is_text"]) for row in list_arguments(text)]
    assert rows[:4] == [
        ("big", "123456789012345678901234567890", False),
        ("deep", '{"a":["\\u202eb"]}', False),
        ("many", "5", False),
        ("no", "null", False),
    ]
    assert rows[4][0] == "text" and rows[4][1].startswith("5[U+200B] (1 hidden") and rows[4][2]


def test_the_page_says_who_wants_to_do_what_before_any_digest(hub: Hub) -> None:
    ask(hub, "the dentist")
    html = hub.client.get("/approvals", headers=BROWSER).text
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<main")[2]))
    assert "This machine wants to run open_safe of safe with: Argument Value reason the dentist" in text
    assert text.index("the dentist") < text.index("Approve this call") < text.index("Digest of the arguments")
    assert "bafk" not in text[: text.index("Details")]


def test_a_decision_says_in_words_what_became_of_the_call(hub: Hub) -> None:
    ask(hub, "the dentist")
    [one] = hub.app.parts.dispatcher.services.approvals.all()
    hub.app.parts.dispatcher.services.approvals.decide(one.id, True, "local")
    html = hub.client.get("/approvals", headers=BROWSER).text
    assert "approved, has not run yet" in html and "No call waits for an approval" in html
    assert "opened: the dentist" in ask(hub, "the dentist")
    assert "approved, ran once" in hub.client.get("/approvals", headers=BROWSER).text
