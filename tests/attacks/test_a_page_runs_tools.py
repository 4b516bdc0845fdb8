"""A page of another site runs tools of a hub by GET, through the browser of a user who can reach it.

A browser sends such a request without asking, and marks it (`Sec-Fetch-Site`). The attack does not read the answer: it
wants the tool to run, or its output to be stored for others (`last_output_of`).
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from tests.attacks.leading import leading
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until_every_worker

DEFINITION = '''"""Says."""


def said(text: str = "nothing") -> str:
    """Say it."""
    return text
'''
CONFIG = {
    "auto_discover": True,
    "annotations": {"readOnlyHint": True},
    "resources": {"last": {"uri": "said://last", "last_output_of": "said"}},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    servers = folder / "servers"
    servers.mkdir()
    (servers / "said.py").write_text(DEFINITION)
    (servers / "said.mcp.json").write_text(json.dumps(CONFIG))
    with leading() as evil:
        evil.there = evil.origin
        (servers / "evil.json").write_text(json.dumps({"kind": "upstream", "address": f"{evil.origin}/mcp"}))
        with running(folder) as started:
            yield started


def fetch(hub: Hub, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """Return status and body of a request with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body


def last(hub: Hub) -> bytes:
    """Return the content of the resource."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "said://last"}})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/mcp/said", body, headers)
    found = connection.getresponse().read()
    connection.close()
    return found


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
        {"Sec_Fetch_Site": ""},
        {"Sec_Fetch_Site": "same-origin, cross-site"},
        {"Sec_Fetch_Site": "none\t, none"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_a_page_of_another_site_runs_no_tool_and_plants_no_output(
    hub: Hub, headers: dict[str, str], method: str
) -> None:
    """T14.4. The tool is marked as read-only; the resource still shows its earlier output."""
    assert fetch(hub, "/said?text=mine", Sec_Fetch_Site="same-origin") == (200, b"mine")
    assert fetch(hub, "/said?text=planted", method, **headers)[0] == 403
    assert b"mine" in last(hub) and b"planted" not in last(hub)


@pytest.mark.parametrize("headers", [{}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "same-origin"}])
def test_the_address_bar_the_own_pages_and_curl_run_it(hub: Hub, headers: dict[str, str]) -> None:
    """VWR-24: the counterpart."""
    assert fetch(hub, "/said?text=mine", **headers) == (200, b"mine")


def test_a_read_only_hint_of_a_mounted_server_is_not_trusted(hub: Hub) -> None:
    """Its tool `look` has `readOnlyHint`. Neither GET nor reading it as a resource runs it."""
    until_every_worker(lambda: fetch(hub, "/evil/look")[0] != 404, "it is listed")
    status, body = fetch(hub, "/evil/look")
    assert status == 405 and b"send its arguments by POST" in body
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "server://evil/look"}}
    known = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/mcp/said", json.dumps(asked), known)
    body = json.loads(connection.getresponse().read())
    connection.close()
    assert "is not marked read-only" in json.dumps(body)
