"""Markdown, made into HTML that is safe to put on a page.

CommonMark with tables, as markdown-it-py reads it; what comes out went through nh3, so that neither
scripts nor event handlers nor `javascript:` links survive, whatever stood in the source.
"""

import re
from typing import Annotated, Any, TypedDict

import nh3
from markdown_it import MarkdownIt
from pydantic import Field

from patchbay import ToolFailed

_MOST_NESTED = 500
"""Tags that may be open at once in the source: the time that nh3 takes grows with the square of it."""

Source = Annotated[str, Field(max_length=200_000)]

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)

_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Heading(TypedDict):
    """One heading of a document."""

    level: int
    text: str
    line: int


def main(markdown: Source) -> dict[str, Any]:
    """Convert Markdown to sanitised HTML.

    Args:
        markdown: The Markdown to convert.
    """
    html = _READER.render(markdown)
    _check_nesting(html)
    return {"output": nh3.clean(html), "content_type": "text/html"}


def headings(markdown: Source) -> list[Heading]:
    """List the headings of a Markdown document: level, text and line.

    Args:
        markdown: The Markdown to look at.
    """
    tokens = _READER.parse(markdown)
    return [
        Heading(level=int(token.tag[1:]), text=tokens[index + 1].content, line=(token.map or [0])[0] + 1)
        for index, token in enumerate(tokens)
        if token.type == "heading_open"
    ]


def _check_nesting(html: str) -> None:
    open_tags = 0
    for closing, name in _TAG.findall(html):
        if closing:
            open_tags = max(0, open_tags - 1)
        elif name.lower() not in _VOID:
            open_tags += 1
        if open_tags > _MOST_NESTED:
            raise ToolFailed(f"the Markdown nests HTML deeper than {_MOST_NESTED} elements; close them, or send less")
