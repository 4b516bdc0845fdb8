"""`POST /render/markdown`: Markdown as a tree of harmless elements, from which a page builds what it shows.

Rules: raw HTML in the source is text; nh3 cleans what is left; the answer is JSON, never HTML, so that no page
has to put a string from elsewhere into itself as markup. Images are left out: a page loads nothing from elsewhere.
A node is a string, or an array of an element's name, its attributes and its nodes: `["a", {"href": "..."}, ["x"]]`.
Sources: DESIGN sections 9 and 11; THREATS 1.4; CommonMark 0.31.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import nh3
from flask import Blueprint, Response, request
from markdown_it import MarkdownIt

from patchbay.errors import InvalidParams, TooLarge
from patchbay.web.api.json_answers import json_answer
from patchbay.web.rendering.time_limits import within
from patchbay.web.site import Site
from patchbay.wire.request_bodies import read_body
from patchbay.wire.security import check_same_origin

ELEMENTS = frozenset(
    (
        *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s"),
        *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
    )
)
SCHEMES = frozenset(("http", "https", "mailto"))
VOID = frozenset(("br", "hr"))

MOST_RENDERED = 100_000
"""Characters of the longest Markdown that is rendered, which may take a second already."""

MOST_SECONDS = 2.0
"""How long the rendering of one text may take."""

MAX_ELEMENT_DEPTH = 100
"""Elements inside each other; what is deeper stands where they end: neither JSON nor a template goes on for ever."""

_READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def markdown(text: str) -> list[Any]:
    """Markdown as nodes."""
    html = nh3.clean(
        _READER.render(text),
        tags=set(ELEMENTS),
        attributes={"a": {"href"}},
        url_schemes=set(SCHEMES),
        attribute_filter=_kept,
        link_rel="noreferrer noopener",
    )
    tree = _Tree()
    tree.feed(html)
    tree.close()
    return tree.nodes


def _kept(_element: str, _name: str, value: str) -> str | None:
    """An address that says where it leads; one that depends on the page it stands on leads nowhere here."""
    return value if value.partition(":")[0].lower() in SCHEMES else None


class _Tree(HTMLParser):
    """Reads clean HTML into nodes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.nodes: list[Any] = []
        self._open = [self.nodes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside: list[Any] = self._open[-1]
        if len(self._open) <= MAX_ELEMENT_DEPTH:
            inside = []
            self._open[-1].append([tag, {name: value or "" for name, value in attrs}, inside])
        if tag not in VOID:
            self._open.append(inside)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and len(self._open) > 1:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].append(data)


def rendering_blueprint(site: Site) -> Blueprint:
    """`POST /render/markdown`: text in UTF-8, answered as `{"nodes": [...]}`."""

    def show() -> Response:
        check_same_origin(request.headers)
        body = read_body(request.environ, site.settings.body_limit)
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise InvalidParams(f"Markdown has to be text in UTF-8; byte {problem.start} is not") from problem
        if len(text) > MOST_RENDERED:
            raise TooLarge(f"the Markdown has {len(text)} characters; {MOST_RENDERED} are the most that is rendered")
        return json_answer({"nodes": within(MOST_SECONDS, lambda: markdown(text), "the Markdown")})

    rendering = Blueprint("rendering", __name__)
    rendering.add_url_rule("/render/markdown", "markdown", show, methods=["POST"])
    return rendering
