"""The page of parts is current, and shows every part that the pages are made of."""

from __future__ import annotations

import re

from scripts import parts_page
from tests.checkout import ROOT

INSIDE = "icon face sockets health outcome_words client_rows framed marks attributes"
OF_SERVERS = "server_head lines trial tool_facts entry pager contents moves versions state unlisted failure"
NOT_SHOWN = {*INSIDE.split(), *OF_SERVERS.split()}
"""Macros that are inside a part, and those that belong to the pages of one server."""


def test_the_page_of_parts_is_current() -> None:
    assert parts_page.PAGE.read_text("utf-8") == parts_page.page(), "run python scripts/parts_page.py"


def test_each_macro_is_a_part_on_the_page_or_belongs_to_the_pages_of_a_server() -> None:
    macros = set(re.findall(r"\{% macro (\w+)\(", (ROOT / "templates/macros.html").read_text("utf-8")))
    shown = (ROOT / "templates/parts.html").read_text("utf-8")
    assert {name for name in macros if f"{name}(" not in shown} == NOT_SHOWN


def test_pages_have_no_error_of_a_form_and_no_empty_state_of_their_own() -> None:
    own = re.compile(r'<div class="note fault" role="alert"><p>\{\{ problem|<p[^>]*>(There is no|There are no) ')
    others = ("macros.html", "document_edit.html", "access.html")
    pages = [path for path in (ROOT / "templates").rglob("*.html") if path.name not in others]
    assert [path.name for path in pages if own.search(path.read_text("utf-8"))] == []
