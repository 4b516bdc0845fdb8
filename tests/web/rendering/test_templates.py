"""Filters of the templates that make markup themselves escape what comes from outside."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from patchbay.web.rendering.templates import escape_in_element


class Texts(HTMLParser):
    """Collects the text and the tags of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "text", ['{"a": "b"}', "</textarea><script>x</script>", "&lt;b&gt; & <b>", "<!-- x", "&amp;quot;", "]]>'\""]
)
def test_a_text_in_an_element_is_the_same_for_a_reader_and_makes_no_tag(text: str) -> None:
    page = Texts()
    page.feed(f"<pre>{escape_in_element(text)}</pre>")
    page.close()
    assert (page.text, page.tags) == (text, ["pre"])
