"""A member writes the URI of a denied document in another way, which the server behind it reads as the same.

Sources: RFC 3986, section 6.2.2; CWE-647 (use of non-canonical URL paths for authorization decisions).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.attacks.lying_server import HONEST
from tests.hubs import Hub, modern_request, sse_messages
from tests.kinds.toolset.sets import toolset
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("lying_server.py")
SECRET = "the secret text"
FILES = '''"""Files by a path that may lead anywhere below the root, upper and lower case alike."""

import posixpath
from urllib.parse import unquote

FILES = {"/secret/x": "the secret text", "/public/x": "the public text"}


def file(path: str) -> str:
    """Return a file."""
    path = unquote(unquote(path)).replace("\\\\", "/").partition("?")[0]
    return FILES.get(posixpath.normpath("/" + path.lstrip("/")).lower(), "no file")


def peek(context, uri: str) -> str:
    """Read a resource of the hub."""
    return context.read(uri)["text"]
'''
CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "resource_templates": {"file": {"uriTemplate": "files://{+path}", "name": "File", "function": "file"}},
}
DENIED = ["files.files://secret/*", "library.docs://library/secret/*", "far.notes://secret*"]
SPELLINGS = (
    *("secret/x", "%73ecret/x", "secret%2Fx", "%2573ecret/x", "SECRET/x", "%53ECRET/x", "./secret/x"),
    *("public/../secret/x", "public/%2e%2e/secret/x", "public/..%2fsecret/x", "public\\..\\secret\\x", "/secret/x"),
    *("secret//x", "secret/x/", "secret/x?all=1", "%252573ecret/x", "public%5C..%5Csecret%5Cx"),
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("spelled")
    for name, text in (("secret/x.md", SECRET), ("public/x.md", "the public text")):
        (folder / "texts" / name).parent.mkdir(parents=True)
        (folder / "texts" / name).write_text(f"# X\n\n{text}\n")
    address = f"mcp+stdio:{sys.executable} -S {PROGRAM} honest"
    hub = team_hub(
        folder,
        {
            "files.py": FILES,
            "files.mcp.json": json.dumps(CONFIG),
            "library.json": json.dumps({"kind": "documents", "root": str(folder / "texts")}),
            "far.json": json.dumps({"kind": "upstream", "address": address, "era": "legacy"}),
            "desk.json": toolset(resources=["files://*", "docs://*", "notes://*"]),
        },
    )
    until(lambda: "notes://first" in hub.catalogue.find("desk").resources, "the mounted server is listed")
    until(lambda: hub.catalogue.find("library").resources, "the documents are listed")
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    set_grants(
        hub,
        {
            "grants": [{"to": ["*"], "may": ["call", "read"], "on": ["files", "library", "far", "desk"]}],
            "denials": [{"to": ["key:ann"], "on": DENIED}],
        },
    )
    return new_key(hub, "ann")


@pytest.fixture(scope="module")
def ben(hub: Hub, ann: dict[str, str]) -> dict[str, str]:
    """A member to whom nothing is denied: what is read without a denial."""
    return new_key(hub, "ben")


def read(hub: Hub, endpoint: str, uri: str, headers: dict[str, str]) -> str:
    last = hub.modern(endpoint, "resources/read", {"uri": uri}, headers=headers).last
    return str(last["result"]["contents"][0]["text"] if "result" in last else last["error"]["message"])


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("endpoint", ["files", "", "desk"])
def test_no_spelling_of_a_denied_uri_is_read_by_a_template(
    hub: Hub, ann: dict[str, str], ben: dict[str, str], endpoint: str, spelling: str
) -> None:
    assert read(hub, endpoint, f"files://{spelling}", ben) == SECRET
    assert SECRET not in read(hub, endpoint, f"files://{spelling}", ann)
    assert read(hub, endpoint, "files://public/x", ann) == "the public text"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_tool_reads_another_spelling_for_its_caller(
    hub: Hub, ann: dict[str, str], ben: dict[str, str], spelling: str
) -> None:
    answers = [hub.client.post("/files/peek", json={"uri": f"files://{spelling}"}, headers=who) for who in (ben, ann)]
    assert SECRET in answers[0].text and SECRET not in answers[1].text


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("endpoint", ["library", "", "desk"])
def test_no_spelling_of_a_denied_document_is_read(
    hub: Hub, ann: dict[str, str], ben: dict[str, str], endpoint: str, spelling: str
) -> None:
    assert SECRET in read(hub, endpoint, "docs://library/secret/x.md", ben)
    assert "the public text" in read(hub, endpoint, "docs://library/public/x.md", ann)
    denied = read(hub, endpoint, f"docs://library/{spelling.replace('x', 'x.md', 1)}", ann)
    assert SECRET not in denied


@pytest.mark.parametrize("endpoint", ["far", "", "desk"])
@pytest.mark.parametrize("name", ["secret", "%73ecret", "%2573ecret", "Secret", "x%2F..%2Fsecret", "secret%3Fx"])
def test_no_spelling_of_a_denied_uri_is_asked_of_a_mounted_server(
    hub: Hub, ann: dict[str, str], ben: dict[str, str], endpoint: str, name: str
) -> None:
    assert HONEST in read(hub, endpoint, f"notes://{name}", ben)
    assert HONEST not in read(hub, endpoint, f"notes://{name}", ann)
    assert HONEST in read(hub, endpoint, "notes://public", ann)


def test_a_denied_document_is_not_announced_under_another_spelling(hub: Hub, ann: dict[str, str]) -> None:
    uris = [f"files://{spelling}" for spelling in SPELLINGS]
    wanted = {"notifications": {"resourceSubscriptions": [*uris, "files://public/x"]}}
    message, headers = modern_request("subscriptions/listen", wanted)
    stream = hub.stream("files", message, headers | ann)
    next(stream)
    for uri in (*uris, "files://public/x"):
        hub.catalogue.store.bus.publish("updated/files", uri.encode())
    heard = next(messages for frame in stream if (messages := sse_messages(frame)))
    assert [one["params"]["uri"] for one in heard] == ["files://public/x"]
    stream.close()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_grant_of_one_folder_gives_no_other_by_a_path_that_leads_there(hub: Hub, spelling: str) -> None:
    """A key is given the URIs of one folder of a mounted server, which does not list them."""
    key = new_key(hub, f"narrow-{SPELLINGS.index(spelling)}", ["read:far.notes://public/*", "read:far.notes://first"])
    assert HONEST in read(hub, "far", "notes://public/x", key)
    assert HONEST not in read(hub, "far", f"notes://public/../{spelling}", key)
    assert HONEST not in read(hub, "far", f"notes://public/%252e%252e/{spelling}", key)
