"""The text of an editor comes back as lines of coloured pieces, for pages of the hub only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from patchbay.web.rendering.highlighting import MAX_COLOURED_CHARACTERS
from tests.hubs import Hub
from tests.web.browsing import read_json
from tests.wire.hostile import HOSTILE


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


def lines(client: FlaskClient, text: str, language: str = "") -> list[list[list[str]]]:
    query = f"?language={language}" if language else ""
    found: list[list[list[str]]] = read_json(client.post(f"/render/code{query}", data=text.encode()))["lines"]
    return found


def joined(found: list[list[list[str]]]) -> str:
    return "\n".join("".join(text for _, text in line) for line in found)


@pytest.mark.parametrize(
    ("language", "text", "piece"),
    [
        ("python", "def greet():\n    pass", ["t-keyword", "def"]),
        ("json", '{"a":   1}', ["t-number", "1"]),
        ("shell", "# A note\necho", ["t-comment", "# A note"]),
        ("markdown", "# A heading", ["t-keyword", "# A heading"]),
    ],
)
def test_each_language_of_a_definition_has_colours(
    client: FlaskClient, language: str, text: str, piece: list[str]
) -> None:
    """Issue 17, item 5: the editor has highlighting. The spaces of JSON stay, because the text is being edited."""
    found = lines(client, text, language)
    assert piece in found[0]
    assert joined(found) == text


def test_the_language_of_a_new_definition_is_detected(client: FlaskClient) -> None:
    assert read_json(client.post("/render/code", data=b"#!/bin/sh\necho hello\n"))["language"] == "shell"
    assert read_json(client.post("/render/code", data=b'{"kind": "static"}'))["language"] == "json"
    assert read_json(client.post("/render/code", data=b"def f(): ...\n"))["language"] == "python"


@pytest.mark.parametrize("language", ["python", "json", "shell", "markdown", "unknown"])
def test_every_character_of_a_hostile_text_comes_back_as_text(client: FlaskClient, language: str) -> None:
    """T14.2, S24: the classes are of a fixed set."""
    for hostile in HOSTILE:
        text = hostile.replace("\0", "").rstrip("\n")
        found = lines(client, text, language)
        assert joined(found) == text
        assert all(kind == "" or kind.startswith("t-") for line in found for kind, _ in line)


def test_another_site_and_a_long_text_are_refused(client: FlaskClient) -> None:
    """THREATS 1.1: the hub spends no processor time on them."""
    refused = client.post("/render/code", data=b"x", headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    assert client.post("/render/code", data=b"x" * (MAX_COLOURED_CHARACTERS + 1)).status_code == 413
    assert "byte 0" in client.post("/render/code", data=b"\xff").get_data(as_text=True)
