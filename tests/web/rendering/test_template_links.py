"""The links in templates get the path prefix of the hub.

Requirement: issue 47 item 16.
"""

from __future__ import annotations

import pytest
from jinja2 import Environment

from patchbay.web.rendering.template_links import add_path_prefix


def render(prefix: str, text: str) -> str:
    values = {"page": "/servers/a&b", "url": "https://example.org/", "given": True, "nothing": ""}
    return add_path_prefix(Environment(autoescape=True), prefix).from_string(text).render(values)


@pytest.mark.parametrize(
    ("template", "page"),
    [
        ('<a href="/servers">', '<a href="/hub/servers">'),
        ("<a href='/servers'>", "<a href='/hub/servers'>"),
        ('<a href="/">', '<a href="/hub/">'),
        ('<a href="/cid/{{ page | length }}?a=/b">', '<a href="/hub/cid/12?a=/b">'),
        ('<form method="post" action="/login">', '<form method="post" action="/hub/login">'),
        ('<script src="/static/page.js"></script>', '<script src="/hub/static/page.js"></script>'),
        ('<div data-live="/activity/events">', '<div data-live="/hub/activity/events">'),
        ('<a href="{{ page }}/edit">', '<a href="/hub/servers/a&amp;b/edit">'),
        ('<a href="{{ page if given else nothing }}">', '<a href="/hub/servers/a&amp;b">'),
        ('<a href="{{ nothing if given else page }}">', '<a href="">'),
        ('<a href="{{ page | upper }}">', '<a href="/hub/SERVERS/A&amp;B">'),
        ('<a href="{{ url }}">', '<a href="https://example.org/">'),
        ('<a href="https://example.org/a">', '<a href="https://example.org/a">'),
        ('<a href="//example.org/a">', '<a href="//example.org/a">'),
        ('<a href="?page=2"><a href="#top">', '<a href="?page=2"><a href="#top">'),
        ('<a href="/hub/servers">', '<a href="/hub/hub/servers">'),
        ('<input value="/servers" data-label="/a">', '<input value="/servers" data-label="/a">'),
        ("<code>{{ page | below_prefix }}</code>", "<code>/hub/servers/a&amp;b</code>"),
        ("<code>{{ page }}</code>", "<code>/servers/a&amp;b</code>"),
    ],
)
def test_a_link_has_the_prefix_of_the_hub(template: str, page: str) -> None:
    assert render("/hub", template) == page
    assert render("", template) == page.replace("/hub", "", 1)


def test_a_link_to_a_value_with_the_prefix_has_it_once() -> None:
    text = add_path_prefix(Environment(autoescape=True), "/hub").from_string('<a href="{{ page }}">')
    assert text.render(page="/hub/servers") == '<a href="/hub/servers">'
