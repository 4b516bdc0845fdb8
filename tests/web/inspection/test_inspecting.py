"""`/inspect`: any MCP server by its address; who may, what may be reached, and what a link alone can do: nothing.

The server that is inspected is another hub, a program of its own that is reached over HTTP.
Sources: issue 7 part 5; THREATS 1.4 (CSRF), 1.7 (SSRF, stdio launch); CVE-2025-49596.
"""

from __future__ import annotations

import json
import socket
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.cli.test_mounting import PIPED
from tests.hubs import BOTH, Answer, Hub, modern_request
from tests.web.browsing import BROWSER, read_json
from tests.web.inspecting import (
    HERE,
    answering,
    bearer,
    closed,
    csrf,
    has_no_connection,
    inspected,
    page_text,
    place,
    press,
    program,
)
from tests.wire.hostile import HOSTILE, Reader, is_shown

pytestmark = pytest.mark.process

AWAY = {"REMOTE_ADDR": "192.0.2.7"}


def test_the_page_shows_all_that_a_server_offers(looker: Hub, far: str) -> None:
    html = inspected(looker, far)
    text = page_text(html)
    for words in ("far", "Ask first.", "visit", "Go somewhere.", "2026-07-28", "3 tools", "1 prompt", "Capabilities"):
        assert words in text
    assert html.count('data-try="tool"') == 3 and 'data-try="prompt"' in html
    assert Reader(html).faults == []


def test_a_pasted_configuration_is_inspected(looker: Hub, far: str) -> None:
    """47.11"""
    html = inspected(looker, json.dumps({"mcpServers": {"away": {"type": "http", "url": far}}}))
    assert "Ask first." in page_text(html)
    several = press(looker, address=json.dumps({"mcpServers": {"a": {"url": far}, "b": {"url": far}}}))
    assert "expected one server to inspect; it has a, b" in page_text(several.text).replace("Expected", "expected")


def test_a_program_gets_the_same_as_json(looker: Hub, far: str) -> None:
    found = program(looker, far)
    assert found["problem"] is None and found["operator"] is True
    assert [each["name"] for each in found["server"]["tools"]] == ["visit", "ask", "wait"]
    assert found["server"]["instructions"] == "Ask first."
    assert program(looker, far, era="legacy")["server"]["revision"] == "2025-11-25"


@pytest.mark.parametrize("site", ["none", "same-origin", "same-site", "cross-site", ""])
@pytest.mark.parametrize("path", ["/inspect", "/inspect.json"])
def test_following_a_link_inspects_no_address(looker: Hub, listener: socket.socket, site: str, path: str) -> None:
    headers = {"User-Agent": "Mozilla/5.0", "Accept": "*/*"} | ({"Sec-Fetch-Site": site} if site else {})
    for seal in ("", "&seal=x", "&seal=" + "A" * 43):
        answer = looker.client.get(f"{path}?address={quote(place(listener))}{seal}", headers=headers)
        assert answer.status_code == 200
        html = looker.client.get(f"/inspect?address={quote(place(listener))}{seal}", headers=BROWSER | headers).text
        assert "The hub has not contacted this address yet" in html
    assert has_no_connection(listener)


def test_a_seal_is_for_one_address_and_opens_its_endpoint(looker: Hub, far: str, listener: socket.socket) -> None:
    good = press(looker, address=far).headers["Location"]
    seal = good.rpartition("seal=")[2]
    other = looker.client.get(f"/inspect?address={quote(place(listener))}&seal={seal}", headers=HERE)
    assert "The hub has not contacted this address yet" in other.text
    body, headers = modern_request("tools/list")
    for query, status in ((good.partition("?")[2], 200), (urlencode({"address": far}), 403), ("seal=" + seal, 403)):
        answer = looker.client.post(f"/inspect/mcp?{query}", json=body, headers=HERE | headers | {"Accept": "*/*"})
        assert answer.status_code == status
    assert has_no_connection(listener)


@pytest.mark.parametrize("path", ["/inspect", "/inspect/profile", "/inspect/mount", "/inspect/mcp"])
def test_no_other_site_presses_a_button(looker: Hub, listener: socket.socket, path: str) -> None:
    """THREATS 1.4: S26, S27."""
    fields = {"csrf": csrf(looker), "address": place(listener), "name": "x"}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost:1"}):
        assert looker.client.post(path, data=fields, headers=headers).status_code == 403
    if path != "/inspect/mcp":
        assert looker.client.post(path, data=fields | {"csrf": "x"}, headers=HERE).status_code == 403
    assert has_no_connection(listener)


def test_only_the_operator_inspects(tmp_path: Path, listener: socket.socket) -> None:
    hub = Hub(tmp_path)
    try:
        page = hub.client.get("/inspect", query_string={"address": place(listener)}, headers=HERE)
        assert "Only the operator" in page.text and "/login?next=" in page.text and "<button>Inspect" not in page.text
        found = hub.client.get("/inspect.json", query_string={"address": place(listener)})
        assert read_json(found)["operator"] is False
        for path in ("/inspect", "/inspect/profile", "/inspect/mount", "/inspect/mcp"):
            answer = hub.client.post(path, data={"address": place(listener), "name": "x"}, headers=HERE)
            assert answer.status_code == 401
        assert has_no_connection(listener)
    finally:
        closed(hub)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0.0.0.0"]
)
def test_an_operator_who_is_elsewhere_is_not_led_inside(tmp_path: Path, listener: socket.socket, host: str) -> None:
    """THREATS 1.7: every spelling of a private address is refused, and nothing goes there."""
    hub = Hub(tmp_path, host="0.0.0.0", access="open")
    try:
        address = place(listener).replace("127.0.0.1", host)
        answer = hub.client.get(
            "/inspect.json",
            query_string={"address": address},
            headers=bearer(hub),
            environ_overrides=AWAY,
        )
        assert "not a public address" in read_json(answer)["problem"]
        assert has_no_connection(listener)
    finally:
        closed(hub)


PROGRAMS = ("mcp+stdio:touch x", "mcp+uvx://mcp-server-time", "mcp+npx://x", "mcp+python://x.py", "mcp+node://x.js")


@pytest.mark.parametrize("address", PROGRAMS)
def test_a_program_is_not_started_unless_the_operator_allows_it(looker: Hub, address: str) -> None:
    """THREATS 1.7, stdio launch."""
    answer = press(looker, address=address)
    assert answer.status_code == 403
    assert "starts a program on the hub's machine" in page_text(answer.text)
    assert "--inspect programs" in program(looker, address)["problem"]


def test_a_profile_does_not_permit_a_program(looker: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "home/.local/jn/profiles/mcp/work"
    folder.mkdir(parents=True)
    (folder / "_meta.json").write_text('{"command": "touch", "args": ["x"], "transport": "stdio"}')
    assert "starts a program" in program(looker, "@work")["problem"]


def test_where_it_is_allowed_a_program_is_inspected_and_called(tmp_path: Path) -> None:
    hub = Hub(tmp_path, inspect="programs")
    try:
        found = program(hub, PIPED)["server"]
        assert "echo" in [each["name"] for each in found["tools"]]
        body, headers = modern_request("tools/call", {"name": "echo", "arguments": {"a": 1}})
        headers |= {"Accept": BOTH}
        headers |= bearer(hub)
        answer = Answer.of(hub.client.post("/inspect/mcp", query_string={"address": PIPED}, json=body, headers=headers))
        assert answer.text == '{"a": 1}'
    finally:
        closed(hub)


def test_a_hub_may_inspect_nothing_at_all(tmp_path: Path, listener: socket.socket) -> None:
    hub = Hub(tmp_path, inspect="off")
    try:
        assert "inspects no other servers" in program(hub, place(listener))["problem"]
        assert "does not inspect other servers" in hub.client.get("/inspect", headers=HERE).text
        assert has_no_connection(listener)
    finally:
        closed(hub)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:1/mcp", "cannot be reached"),
        ("nonsense", "not an address"),
        ("/mcp/echo", "is one of this hub"),
        ("@nobody", "profile not found"),
        ("https://mcp.example/mcp?api_key=abc", "expected a variable"),
        ("mcp+https://mcp.example/mcp?header.Authorization=Bearer abc", "expected a variable"),
        ("mcp+http://127.0.0.1:1/mcp?header.Authorization=${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE not set"),
        ("mcp+http://127.0.0.1:1/mcp?tool=x", "without an operation or arguments"),
        ("http://127.0.0.1:1/" + "x" * 2000, "at most 2000 characters"),
    ],
)
def test_the_answer_says_why_an_address_cannot_be_inspected(looker: Hub, address: str, words: str) -> None:
    assert words in program(looker, address)["problem"]
    answer = press(looker, address=address)
    html = (
        answer.text if answer.status_code != 303 else looker.client.get(answer.headers["Location"], headers=HERE).text
    )
    assert words in page_text(html).replace("Not an", "not an")
    assert unescape(html).count(address[:100]) >= 1


def test_values_of_variables_are_not_shown(looker: Hub) -> None:
    address = "mcp+http://127.0.0.1:1/mcp?query.key=${CANARY}&header.Authorization=${CANARY}"
    shown = inspected(looker, address) + json.dumps(program(looker, address))
    assert "cannot be reached" in shown and "canary-7f3a" not in shown


def test_a_redirect_to_another_place_is_not_followed(looker: Hub, listener: socket.socket, tmp_path: Path) -> None:
    """THREATS 1.7, redirects."""
    with socket.create_server(("127.0.0.1", 0)) as redirecting:
        answer = f"HTTP/1.1 307 Moved\r\nLocation: {place(listener)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        stop = answering(redirecting, answer.encode())
        assert program(looker, place(redirecting))["problem"]
        stop()
    assert has_no_connection(listener)


def test_hostile_words_of_the_other_server_stay_text(looker: Hub, far: str) -> None:
    """T14.2, S24: sixty strings as titles, descriptions, instructions, names of arguments, of the server itself."""
    for name in ("tools", *(f"h{index:02}" for index in range(0, len(HOSTILE), 7))):
        html = inspected(looker, far.replace("/far", f"/{name}"))
        page = Reader(html)
        assert page.faults == []
        assert "cannot be inspected" not in page.text
        wanted = HOSTILE if name == "tools" else (HOSTILE[int(name[1:])],)
        for text in wanted:
            assert is_shown(text, page.text), text
