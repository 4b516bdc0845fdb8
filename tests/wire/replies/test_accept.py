"""Content negotiation by the `Accept` header, as tables."""

from __future__ import annotations

import pytest

from patchbay.wire.replies.accept import JSON, NDJSON, STREAM, accepted_forms, preferred_form, wants_html
from tests.web.browsing import BROWSER


@pytest.mark.parametrize(
    ("accept", "json", "stream"),
    [
        ("", False, False),
        ("*/*", True, False),
        ("application/*", True, False),
        ("application/json, text/event-stream", True, True),
        ("application/json;q=0, text/event-stream", False, True),
        ("text/html", False, False),
    ],
)
def test_a_stream_must_be_named_and_a_wildcard_accepts_json(accept: str, json: bool, stream: bool) -> None:
    assert accepted_forms(accept) == (json, stream)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("application/*", JSON),
        ("application/json, text/event-stream", STREAM),
        ("text/event-stream;q=0.5, application/json", JSON),
        ("application/x-ndjson, application/json", NDJSON),
        ("application/x-ndjson, text/event-stream;q=0.9", NDJSON),
        ("application/x-ndjson, text/event-stream", STREAM),
        ("application/json;q=0, text/event-stream", STREAM),
        ("text/html", None),
        ("application/json;q=0", None),
    ],
)
def test_the_form_is_what_accept_prefers(accept: str, form: str | None) -> None:
    """SUB-26."""
    assert preferred_form(accept) == form


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (BROWSER["Accept"], True),
        ("text/html", True),
        ("application/xhtml+xml", True),
        ("text/html;q=0.5, application/json;q=0.4", True),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0", False),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json, text/event-stream", False),
        ("text/event-stream", False),
        ("nonsense", False),
    ],
)
def test_a_browser_gets_html_and_programs_do_not(accept: str, html: bool) -> None:
    """V-C8."""
    assert wants_html(accept) is html


def test_the_beginning_of_a_long_header_counts_alone() -> None:
    more = "," + "x/y," * 4000
    assert accepted_forms(f"application/json{more}text/event-stream") == (True, False)
    assert preferred_form(f"text/event-stream{more}") == STREAM
    assert wants_html(f"text/html{more}")
