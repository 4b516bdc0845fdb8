"""Markdown as a tree of harmless elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from patchbay.web.rendering.markdown import ELEMENTS, MAX_ELEMENT_DEPTH, MAX_RENDERED_CHARACTERS, render_nodes
from tests.hubs import Hub
from tests.web.browsing import read_json
from tests.wire.hostile import HOSTILE


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


def elements(nodes: list[Any]) -> Iterator[tuple[str, dict[str, str]]]:
    for node in nodes:
        if not isinstance(node, str):
            yield node[0], node[1]
            yield from elements(node[2])


def text(nodes: list[Any]) -> str:
    return "".join(node if isinstance(node, str) else text(node[2]) for node in nodes)


def test_markdown_becomes_nodes(client: FlaskClient) -> None:
    answer = client.post("/render/markdown", data=b"# A\n\n*b* & `c`\n\n| d |\n| - |\n| e |\n\n---\n")
    nodes = read_json(answer)["nodes"]
    names = [name for name, _ in elements(nodes)]
    assert names == ["h1", "p", "em", "code", "table", "thead", "tr", "th", "tbody", "tr", "td", "hr"]
    assert "b & c" in text(nodes)


def test_links_lead_to_the_web_only() -> None:
    """S24."""
    found = dict(elements(render_nodes("[a](https://x.org/) [b](mailto:a@b) ![i](https://x.org/i.png)")))
    assert found["a"]["href"].startswith(("https:", "mailto:"))
    assert "img" not in found
    for address in ("javascript:alert(1)", "data:text/html,x", "vbscript:x", "JaVaScRiPt:x", "/logout", "//x.org"):
        assert all("href" not in attributes for _, attributes in elements(render_nodes(f"[a]({address}) <{address}>")))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_hostile_becomes_an_element(hostile: str) -> None:
    """T14.2, S24: HTML in Markdown is text."""
    for source in (hostile, f"# {hostile}", f"* {hostile}", f"[x]({hostile})", f"**{hostile}**"):
        for name, attributes in elements(render_nodes(source)):
            assert name in ELEMENTS
            assert set(attributes) <= {"href", "rel"}
            assert attributes.get("href", "https:").startswith(("https:", "http:", "mailto:"))


def test_another_site_cannot_have_markdown_rendered(client: FlaskClient) -> None:
    refused = client.post("/render/markdown", data=b"x", headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    wrong = client.post("/render/markdown", data=b"\xff", headers={"Accept": "application/json"})
    assert wrong.status_code == 400
    assert "byte 0" in read_json(wrong)["error"]


def test_deep_nesting_is_shown_down_to_the_depth_of_pages(client: FlaskClient) -> None:
    """The text is complete; the depth of the answer is limited for any text."""
    nodes = read_json(client.post("/render/markdown", data="**a " * 2000 + " b**" * 2000))["nodes"]
    assert text(nodes).count("a") == text(nodes).count("b") == 2000
    assert len(list(elements(nodes))) <= MAX_ELEMENT_DEPTH


def test_only_so_much_markdown_is_rendered(client: FlaskClient) -> None:
    """THREATS 1.1 (unbounded consumption): a body that is allowed would keep a processor busy for minutes."""
    assert client.post("/render/markdown", data="x" * MAX_RENDERED_CHARACTERS).status_code == 200
    answer = client.post("/render/markdown", data="x" * (MAX_RENDERED_CHARACTERS + 1))
    assert answer.status_code == 413
    assert str(MAX_RENDERED_CHARACTERS) in answer.text
