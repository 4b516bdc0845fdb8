"""Renders a Markdown document as safe HTML with headings that links can name, and with links within its library.

HTML in the source becomes text; nh3 cleans the rest. Images become links, because a page loads nothing from other
sites. Source: CommonMark 0.31.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from urllib.parse import quote, unquote, urlsplit

import nh3
from markdown_it.token import Token
from markupsafe import Markup

from patchbay.documents.headings import Anchors, plain_title
from patchbay.web.rendering.markdown import ELEMENTS, MAX_RENDERED_CHARACTERS, MAX_RENDERING_SECONDS, READER, SCHEMES
from patchbay.web.rendering.time_limits import run_within

HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))


def render_document(body: str, link_to: Callable[[str, str], str | None]) -> Markup | None:
    """Render the text of a document; None for a text that is too long.

    `link_to` gets the target of a relative link (path and anchor) and returns the URL on this hub, None for a target
    without a page.
    """
    if len(body) > MAX_RENDERED_CHARACTERS:
        return None
    return run_within(MAX_RENDERING_SECONDS, lambda: _render(body, link_to), "the document")


def _render(body: str, link_to: Callable[[str, str], str | None]) -> Markup:
    tokens = READER.parse(body)
    anchors = Anchors()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchors.add(plain_title(tokens[place + 1].content)))
        for inner in token.children or ():
            _change_target(inner, link_to)
    html = READER.renderer.render(tokens, READER.options, {})
    attributes = {"a": {"href"}, **{name: {"id"} for name in HEADINGS}}
    cleaned = nh3.clean(
        html, tags=set(ELEMENTS), attributes=attributes, url_schemes=set(SCHEMES), link_rel="noreferrer noopener"
    )
    return Markup(cleaned)


def _change_target(token: Token, link_to: Callable[[str, str], str | None]) -> None:
    """Change the target of a link to its page; a link without a page, and an image, becomes its text."""
    if token.type == "image":
        token.type, token.tag, token.content = "code_inline", "code", token.content or "image"
        return
    if token.type != "link_open":
        return
    target = str(token.attrGet("href") or "")
    if urlsplit(target).scheme or target.startswith("#"):
        return
    path, _, anchor = target.partition("#")
    page = link_to(unquote(path.partition("?")[0]), anchor)
    token.attrSet("href", page or "#")


def resolve_path(document: str, target: str) -> str | None:
    """Return the path of a link's target in the library; None for a target outside of it. `document` has the link."""
    base = "" if target.startswith("/") else posixpath.dirname(document)
    path = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
    return None if path.startswith("..") or path == "." else path


def page_of(server: str, path: str, anchor: str = "") -> str:
    """Return the address of the page of a document."""
    return f"/servers/{quote(server, safe='')}/documents?path={quote(path)}{f'#{anchor}' if anchor else ''}"
