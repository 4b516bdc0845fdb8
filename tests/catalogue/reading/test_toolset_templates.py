"""A template of a toolset gives no URI that the toolset excludes, and nothing of a template that it has not chosen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.attacks.lying_server
from tests.attacks.lying_server import HONEST
from tests.hubs import Hub
from tests.kinds.toolset.sets import toolset
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(tests.attacks.lying_server.__file__)
DOCS = '''"""Documents."""


def secret(id: str) -> str:
    """Return a secret document."""
    return f"secret {id}"


def plain(path: str) -> str:
    """Return a document."""
    return f"plain {path}"
'''
DOCS_CONFIG = {
    "isolation": "inline",
    "resource_templates": {
        "secret": {"uriTemplate": "docs://secret/{id}", "name": "Secret", "function": "secret"},
        "plain": {"uriTemplate": "docs://{+path}", "name": "Plain", "function": "plain"},
    },
}
FILES = {
    "docs.py": DOCS,
    "docs.mcp.json": json.dumps(DOCS_CONFIG),
    "honest.json": json.dumps(
        {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} -S {PROGRAM} honest", "era": "legacy"}
    ),
    "pattern.json": toolset(resources=["docs.*"], exclude=["docs://secret/*"]),
    "wide.json": toolset(resources=["docs.docs://{+path}"]),
    "named.json": toolset(resources=["docs.*"], exclude=["docs.docs://secret/{id}"]),
    "every.json": toolset(resources=["docs.*"], exclude=["docs://secret/7"]),
    "pages.json": toolset(resources=["https://*"], exclude=["https://honest.example/secret/*"]),
    "outer.json": toolset(resources=["pages.*"]),
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = Hub(tmp_path_factory.mktemp("templates"), FILES, isolation="inline").as_operator()
    until(lambda: found.catalogue.find("outer").templates, "the mounted server is listed")
    yield found
    found.close()


def read(hub: Hub, server: str, uri: str) -> str:
    """The text of a resource, or the message of the error."""
    last = hub.modern(server, "resources/read", {"uri": uri}).last
    return str(last["result"]["contents"][0]["text"] if "result" in last else last["error"]["message"])


@pytest.mark.parametrize("server", ["pattern", "wide", "named"])
@pytest.mark.parametrize("uri", ["docs://secret/x", "docs://%73ecret/x", "docs://a/../secret/x", "docs://./secret//x"])
def test_a_wide_template_of_a_definition_gives_no_uri_that_is_excluded(hub: Hub, server: str, uri: str) -> None:
    if server == "wide" and uri != "docs://secret/x":
        assert read(hub, server, uri).startswith("plain "), "nothing is excluded, and the template itself runs"
        return
    text = read(hub, server, uri)
    assert "plain" not in text and not text.startswith("secret")
    assert read(hub, server, "docs://open/x") == "plain open/x"


def test_each_chosen_template_gives_what_its_server_gives_for_it(hub: Hub) -> None:
    assert read(hub, "every", "docs://secret/8") == "secret 8"
    assert read(hub, "every", "docs://open/x") == "plain open/x"
    assert not read(hub, "every", "docs://secret/7").startswith("secret")


@pytest.mark.parametrize("server", ["pages", "outer"])
def test_a_template_of_a_mounted_server_gives_no_uri_that_is_excluded(hub: Hub, server: str) -> None:
    for uri in ("secret/x", "%73ecret/x", "a/../secret/x"):
        assert HONEST not in read(hub, server, f"https://honest.example/{uri}")
    assert HONEST in read(hub, server, "https://honest.example/open/x")
