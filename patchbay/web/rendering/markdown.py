"""Convert Markdown to a tree of safe elements, from which a page builds its content.

HTML in the source becomes text; nh3 cleans the rest. The result is a tree, never HTML: a page inserts no foreign
markup. Images are left out, because a page loads nothing from other sites. A node is a string, or an array of element
name, attributes and child nodes: `["a", {"href": "..."}, ["x"]]`.
Source: CommonMark 0.31.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import nh3
from markdown_it import MarkdownIt

ELEMENTS = frozenset(
    (
        *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s"),
        *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
    )
)
SCHEMES = frozenset(("http", "https", "mailto"))
VOID = frozenset(("br", "hr"))

MAX_RENDERED_CHARACTERS = 100_000
"""Characters of a rendered text, at most; a text of this length can take a second."""

MAX_RENDERING_SECONDS = 2.0
"""Seconds to render one text, at most."""

MAX_ELEMENT_DEPTH = 100
"""Depth of nested elements, at most; deeper content is added to the deepest element."""

READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
"""Reads Markdown; HTML in it is text. Its output still has to be cleaned."""


def render_nodes(text: str) -> list[Any]:
    """Convert Markdown to nodes."""
    html = nh3.clean(
        READER.render(text),
        tags=set(ELEMENTS),
        attributes={"a": {"href"}},
        url_schemes=set(SCHEMES),
        attribute_filter=_filter_attribute,
        link_rel="noreferrer noopener",
    )
    tree = _Tree()
    tree.feed(html)
    tree.close()
    return tree.nodes


def _filter_attribute(_element: str, _name: str, value: str) -> str | None:
    """Keep an absolute URL with an allowed scheme; remove relative URLs."""
    return value if value.partition(":")[0].lower() in SCHEMES else None


class _Tree(HTMLParser):
    """Parses clean HTML into nodes."""

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
