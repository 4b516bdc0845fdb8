"""Markdown, made into HTML that is safe to put on a page.

CommonMark with tables, as markdown-it-py reads it; what comes out went through nh3, so that neither
scripts nor event handlers nor `javascript:` links survive, whatever stood in the source.
"""

from typing import Any, TypedDict

import nh3
from markdown_it import MarkdownIt

_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Heading(TypedDict):
    """One heading of a document."""

    level: int
    text: str
    line: int


def main(markdown: str) -> dict[str, Any]:
    """Convert Markdown to sanitised HTML.

    Args:
        markdown: The Markdown to convert.
    """
    return {"output": nh3.clean(_READER.render(markdown)), "content_type": "text/html"}


def headings(markdown: str) -> list[Heading]:
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
