"""A mounted server answers for the hub and for other servers: at `/mcp` each URI is read from its owner.

The liar is mounted over standard input and output, and over HTTP, in both eras of the protocol, after an honest server
of the same kind and beside servers of the hub. It lists URIs and templates of the hub's schemes and of the others.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchbay.cid import cid_of
from tests.attacks.lying_server import HONEST, LIE, answer
from tests.hubs import MODERN, Hub, modern_request, sse_messages
from tests.protocol.test_tools import listed
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("lying_server.py")
LARGE = "the large result of another server, " * 8000
FILES = {
    "big.py": f"def big() -> str:\n    return {LARGE[:36]!r} * 8000\n",
    "pages.json": json.dumps({"resources": {"p": {"uri": "page://of/the/hub", "name": "p", "text": HONEST}}}),
    "guide.json": json.dumps(
        {
            "skills": {
                "guide": {
                    "SKILL.md": {"text": "---\nname: guide\ndescription: A guide.\n---\nRead on.\n"},
                    "more.md": {"text": HONEST},
                }
            }
        }
    ),
}


class Answers(BaseHTTPRequestHandler):
    """One role of the program over Streamable HTTP, with JSON answers."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_request = "id" in request and "method" in request
        role = self.path.strip("/")
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(role, request)}) if is_request else ""
        self.send_response(200 if is_request else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module", params=["stdio legacy", "stdio modern", "http legacy", "http modern"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    transport, era = request.param.split()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def mount(role: str) -> str:
        address = f"mcp+stdio:{sys.executable} -S {PROGRAM} {role}"
        if transport == "http":
            address = f"http://127.0.0.1:{server.server_port}/{role}"
        return json.dumps({"kind": "upstream", "address": address, "era": era})

    # The names are against the rule: the liar would be the first one by name.
    hub = Hub(tmp_path_factory.mktemp("lies"), {**FILES, "z_honest.json": mount("honest")}).as_operator()
    until(lambda: "notes://first" in list_uris(hub, ""), "the honest server is listed")
    (hub.servers / "a_liar.json").write_text(mount("liar"))
    until(lambda: "mine://listed" in list_uris(hub, ""), "the liar is listed")
    yield hub
    hub.close()
    server.shutdown()
    server.server_close()


def list_uris(hub: Hub, server: str) -> list[str]:
    """Return the listed URIs and templates of a server."""
    resources = hub.modern(server, "resources/list").result["resources"]
    templates = hub.modern(server, "resources/templates/list").result["resourceTemplates"]
    return [one["uri"] for one in resources] + [one["uriTemplate"] for one in templates]


def read_text(hub: Hub, uri: str, server: str = "") -> str:
    """Return what a reader gets for a URI in both eras: its text, or the message of the error."""
    session = hub.open(server)
    modern = hub.modern(server, "resources/read", {"uri": uri})
    legacy = hub.legacy(server, "resources/read", {"uri": uri}, session=session)
    texts = [
        str(one.last["result"]["contents"][0]["text"] if "result" in one.last else one.last["error"]["message"])
        for one in (modern, legacy)
    ]
    assert texts[0] == texts[1]
    return texts[0]


def test_the_link_of_a_large_result_gives_the_bytes_of_its_content_identifier(hub: Hub) -> None:
    (block,) = [one for one in hub.call("", "big__big", {}, MODERN).result["content"] if one["type"] == "resource_link"]
    text = read_text(hub, block["uri"])
    assert text == LARGE
    assert block["uri"].startswith(f"cid://{cid_of(text.encode())}")
    unknown = cid_of(b"these bytes are nowhere")
    for uri in (
        f"cid://{unknown}",
        f"cid://{unknown}?key=x",
        f"CID://{unknown}",
        f"cid:{unknown}",
        "Cid://bafkreiaaaa",
    ):
        assert LIE not in read_text(hub, uri)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("notes://first", HONEST),
        ("notes://unlisted", HONEST),
        ("https://honest.example/page", HONEST),
        ("https://honest.example/other", HONEST),
        ("page://of/the/hub", HONEST),
        ("skill://guide/more.md", HONEST),
        ("server://big", '"name":"big"'),
        ("server://", '"name":"big"'),
    ],
)
def test_each_uri_is_read_from_its_owner(hub: Hub, uri: str, expected: str) -> None:
    text = read_text(hub, uri)
    assert expected in text and LIE not in text


@pytest.mark.parametrize(
    "uri",
    [
        *("notes://a/b", "page://of/nobody", "server://nothing", "SERVER://big", "variable://secret", "variable://x"),
        *("skill://guide/none.md", "skill://other/SKILL.md", "UI://page.html", "ui:page", "ui://page.html"),
        *("strange://x", "x:y", "cat://x"),
    ],
)
def test_the_liar_answers_for_no_uri_of_the_hub_and_of_other_servers(hub: Hub, uri: str) -> None:
    assert LIE not in read_text(hub, uri)


def test_the_liar_is_read_at_its_own_uris_and_by_its_own_endpoint(hub: Hub) -> None:
    assert read_text(hub, "own://anything") == f"{LIE}: own://anything"
    assert read_text(hub, "notes://first", "a_liar") == f"{LIE}: notes://first"
    assert read_text(hub, "variable://secret", "a_liar") == f"{LIE}: variable://secret"
    assert read_text(hub, "notes://first", "z_honest") == f"{HONEST}: notes://first"


def test_the_lists_name_only_what_is_read_from_that_server(hub: Hub) -> None:
    both = hub.modern("", "resources/list").result["resources"]
    templates = hub.modern("", "resources/templates/list").result["resourceTemplates"]
    lies = {one["uri"] for one in both if one["name"] == LIE}
    assert lies == {"own://listed", "mine://listed"}
    assert {one["uriTemplate"] for one in templates if one["name"] == LIE} == {"own://{x}"}
    assert {one["uri"] for one in both if one["name"] == HONEST} == {"notes://first", "https://honest.example/page"}


def test_the_page_of_the_liar_says_what_others_keep(hub: Hub) -> None:
    page = hub.client.get("/servers/a_liar", headers={"Host": "localhost", "Accept": "text/html"}).get_data(
        as_text=True
    )
    assert "not served at /mcp: z_honest had it first, before a_liar; /mcp/a_liar serves it" in page
    assert "not served at /mcp: pages had it first, before a_liar" in page
    assert "not served at /mcp: the scheme cid belongs to the hub" in page
    assert "not served at /mcp: the template has no literal scheme" in page


def test_a_completion_for_a_template_of_another_server_does_not_reach_the_liar(hub: Hub) -> None:
    for template in ("cid://{x}{?key}", "notes://{+any}", "{+any}"):
        params = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": "x", "value": ""}}
        assert hub.modern("", "completion/complete", params).error["code"] == -32602


def test_contents_of_the_liar_stand_under_its_own_uri(hub: Hub) -> None:
    """It returns contents under URIs of others beside its own."""
    contents = hub.modern("", "resources/read", {"uri": "own://listed"}).result["contents"]
    assert [one["uri"] for one in contents] == ["own://listed"] * 3


def test_bytes_under_a_content_identifier_are_its_bytes_also_inside_results(hub: Hub) -> None:
    """Of a tool, of a prompt, and by the endpoint of the server itself."""
    lie, truth = f"cid://{cid_of(b'other bytes')}?key=x", f"cid://{cid_of(LIE.encode())}"
    for server, tool in (("", "a_liar__embed"), ("a_liar", "embed")):
        refused = hub.call(server, tool, {"uri": lie}, MODERN)
        assert refused.result["isError"] and "are not the content of" in refused.text
        assert hub.call(server, tool, {"uri": truth}, MODERN).result["content"][0]["resource"]["text"] == LIE
    prompt = {"name": "a_liar__about", "arguments": {"uri": lie}}
    assert "are not the content of" in hub.modern("", "prompts/get", prompt).error["message"]
    assert "are not the content of" in read_text(hub, f"cid://{cid_of(b'other bytes')}", "a_liar")


def test_the_tools_of_the_liar_have_its_name(hub: Hub) -> None:
    names = listed(hub, "", MODERN)
    assert {"a_liar__embed", "z_honest__embed"} <= set(names)


@pytest.fixture
def announcing_hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub with both servers in an older revision, which announces changes by itself."""

    def mount(role: str) -> str:
        return json.dumps(
            {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} -S {PROGRAM} {role}", "era": "legacy"}
        )

    hub = Hub(tmp_path, {**FILES, "z_honest.json": mount("honest")}).as_operator()
    until(lambda: "notes://first" in list_uris(hub, ""), "the honest server is listed")
    (hub.servers / "a_liar.json").write_text(mount("liar"))
    until(lambda: "own://listed" in list_uris(hub, ""), "the liar is listed")
    yield hub
    hub.close()


def test_the_liar_announces_changes_of_its_own_resources_only(announcing_hub: Hub) -> None:
    """It announces changes of its lists too, which are as before."""
    hub = announcing_hub
    uris = [
        "page://of/the/hub",
        "server://big",
        "skill://guide/more.md",
        "notes://first",
        "notes://other",
        "own://listed",
    ]
    lists = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    stream = hub.stream(
        "", *modern_request("subscriptions/listen", {"notifications": {**lists, "resourceSubscriptions": uris}})
    )
    heard = (message for frame in stream for message in sse_messages(frame))
    assert next(heard)["method"] == "notifications/subscriptions/acknowledged"
    assert not hub.call("", "a_liar__embed", {"updated": uris}, MODERN).result.get("isError")
    assert next(heard)["params"]["uri"] == "own://listed"
    # What the honest server announces afterwards is the next message.
    assert not hub.call("", "z_honest__embed", {"updated": ["own://listed", "notes://first"]}, MODERN).result.get(
        "isError"
    )
    assert next(heard)["params"]["uri"] == "notes://first"
    stream.close()


def test_a_subscription_is_made_at_the_owner_of_the_uri(announcing_hub: Hub) -> None:
    hub, uris = announcing_hub, ["notes://first", "notes://unlisted", "variable://x", "cid://x", "own://listed"]
    session = hub.open("")
    for uri in uris:
        assert hub.legacy("", "resources/subscribe", {"uri": uri}, session=session).result == {}
    assert until(lambda: subscriptions_at(hub, "z_honest"), "the honest server is subscribed to") == uris[:2]
    assert until(lambda: subscriptions_at(hub, "a_liar"), "the liar is subscribed to") == uris[4:]


def subscriptions_at(hub: Hub, server: str) -> list[str]:
    """Return the URIs that were subscribed to at a server, once the last one is there."""
    found = hub.call("", f"{server}__embed", {"subscribed": True}, MODERN).text.split()
    return found if len(found) == (2 if server == "z_honest" else 1) else []
