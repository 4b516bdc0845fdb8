"""What is done with an inspected server: calling it, answering it, keeping it as a profile, mounting it, forgetting it.

Sources: issue 7 part 5; JN-13, JN-51; docs/mounting.md.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.errors import UnknownServer
from patchbay.settings import Settings, whole_environment
from patchbay.web.inspection import inspected_servers as inspection
from patchbay.web.inspection.inspected_servers import InspectedServers, InspectionDispatcher, InspectionTarget
from tests.hubs import BOTH, Answer, Hub, modern_request
from tests.waiting import until
from tests.web.browsing import read_json
from tests.web.inspecting import HERE, bearer, closed, csrf, page_text, press

pytestmark = pytest.mark.process


def send_message(hub: Hub, address: str, message: Any, headers: dict[str, str], method: str = "POST") -> Answer:
    """Send a message to the endpoint, as a program."""
    known = {"Content-Type": "application/json", "Accept": BOTH} | bearer(hub) | headers
    client, query = hub.app.test_client(), {"address": address}
    return Answer.of(client.open("/inspect/mcp", method=method, query_string=query, json=message, headers=known))


def test_a_tool_is_called_with_its_log_and_its_record(looker: Hub, far: str) -> None:
    call = {"name": "visit", "arguments": {"place": "Ghent"}}
    meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
    answer = send_message(looker, far, *modern_request("tools/call", call, meta=meta))
    assert answer.streamed and answer.text == "was in Ghent"
    assert "on the way to Ghent" in json.dumps(answer.messages)
    newest = read_json(looker.client.get("/activity.json"))["records"][0]
    assert (newest["server"], newest["name"], newest["outcome"]) == ("inspect", "visit", "ok")
    page = looker.client.get("/activity", headers=HERE).text
    assert 'href="/inspect"' in page and "/servers/inspect" not in page


def test_a_question_of_the_other_server_is_answered_here(looker: Hub, far: str) -> None:
    able: dict[str, Any] = {"elicitation": {"form": {}}}
    first = send_message(looker, far, *modern_request("tools/call", {"name": "ask", "arguments": {}}, able)).result
    assert first["resultType"] == "input_required"
    (key,) = first["inputRequests"]
    said = {key: {"action": "accept", "content": {"name": "Ada"}}}
    more = {"name": "ask", "arguments": {}, "inputResponses": said, "requestState": first["requestState"]}
    assert "Ada" in send_message(looker, far, *modern_request("tools/call", more, able)).text


def test_a_session_of_an_older_revision_lives_and_ends(looker: Hub, far: str) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    opened = send_message(looker, far, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})
    session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-06-18"}
    listed = send_message(looker, far, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, session)
    assert [each["name"] for each in listed.result["tools"]] == ["visit", "ask", "wait"]
    other = far.replace("/far", "/echo")
    assert send_message(looker, other, {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}, session).status == 404
    assert send_message(looker, far, None, session, "DELETE").status == 204


def test_who_goes_away_cancels_the_call_at_the_other_server(looker: Hub, far: str) -> None:
    """X4: closing the stream of 2026-07-28 ends the work behind it."""
    body, headers = modern_request("tools/call", {"name": "wait", "arguments": {}}, meta={"progressToken": 1})
    known = {"Accept": BOTH} | bearer(looker) | headers
    query = {"address": far}
    answer = looker.app.test_client().post("/inspect/mcp", query_string=query, json=body, headers=known, buffered=False)
    assert b"progress" in next(frame for frame in answer.response if b"progress" in frame)
    answer.close()

    def outcome() -> str:
        with urllib.request.urlopen(far.replace("/mcp/far", "/activity.json?tool=wait")) as found:
            records = json.load(found)["records"]
        return str(records[0]["outcome"]) if records else ""

    until(lambda: outcome() == "cancelled", "the call there to be cancelled")


def test_a_call_of_a_server_that_is_away_says_so_as_json_rpc(looker: Hub) -> None:
    answer = send_message(looker, "http://127.0.0.1:1/mcp", *modern_request("tools/list"))
    assert answer.status == 502 and "cannot be reached" in answer.error["message"]


def test_it_is_kept_as_a_profile_with_its_contract(looker: Hub, far: str, tmp_path: Path) -> None:
    answer = press(looker, "/inspect/profile", address=far, name="town")
    assert answer.status_code == 303
    shown = looker.client.get(answer.headers["Location"].partition("#")[0], headers=HERE).text
    assert "Saved as @town" in page_text(shown)
    kept = Profiles(find_homes(tmp_path, {"HOME": str(tmp_path / "home")})).load("town")
    assert kept.launch == {"url": far, "transport": "auto"}
    assert sorted(kept.tools) == ["ask", "visit", "wait"] and kept.schema_hash and kept.schema_cid
    again = press(looker, "/inspect/profile", address=far, name="town")
    assert again.status_code == 422 and "a profile with this name exists" in page_text(again.text)
    assert press(looker, "/inspect/profile", address=far, name="town", replace="on").status_code == 303
    wrong = press(looker, "/inspect/profile", address=far, name="../town")
    assert wrong.status_code == 422 and "expected a name of letters" in page_text(wrong.text)


def test_it_is_mounted_and_called_through_the_mount(looker: Hub, far: str) -> None:
    answer = press(looker, "/inspect/mount", address=far, era="legacy", name="town")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers/town")
    assert json.loads((looker.servers / "town.json").read_text("utf-8")) == {
        "kind": "upstream",
        "address": far,
        "era": "legacy",
    }
    until(lambda: looker.catalogue.find("town").tools, "its tools")
    assert looker.call("town", "visit", {"place": "Ghent"}).text == "was in Ghent"
    assert looker.client.get("/servers/town", headers=HERE).status_code == 200


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("echo", "this hub has a server echo"),
        ("meta", "a page of its own"),
        ("a/b", "expected 1 to 128 letters"),
        ("", "expected 1 to 128 letters"),
    ],
)
def test_a_name_that_a_mount_cannot_have_is_refused_and_nothing_is_written(
    looker: Hub, far: str, name: str, words: str
) -> None:
    answer = press(looker, "/inspect/mount", address=far, name=name)
    assert answer.status_code == 422
    assert words in page_text(answer.text) and 'data-try="tool"' in answer.text
    assert list(looker.servers.iterdir()) == []


def test_a_read_only_hub_inspects_and_keeps_nothing(tmp_path: Path, far: str) -> None:
    hub = Hub(tmp_path, boot="readonly").log_in()
    try:
        opened = press(hub, address=far)
        shown = hub.client.get(opened.headers["Location"], headers=HERE).text
        assert "visit" in shown and "read-only" in shown and "Mount it<" not in shown
        for path in ("/inspect/mount", "/inspect/profile"):
            fields = {"csrf": csrf(hub), "address": far, "name": "town"}
            assert hub.client.post(path, data=fields, headers=HERE).status_code == 405
    finally:
        closed(hub)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "upstream inspect"]


def test_inspected_servers_are_limited_and_closed_when_they_are_unused(
    far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = InspectedServers(Settings(), whole_environment())
    addresses = [InspectionTarget(f"{far}?{number}") for number in range(inspection.MAX_INSPECTED_SERVERS + 2)]
    try:
        for each in addresses:
            assert "visit" in found.server(each).tools
        until(lambda: len(threads()) == inspection.MAX_INSPECTED_SERVERS, "the oldest to leave")
        assert found.server(addresses[-1]) is found.server(addresses[-1])
        monkeypatch.setattr(inspection, "IDLE_SECONDS", 0.0)
        found._sweep()
        until(lambda: not threads(), "all of them to leave")
    finally:
        found.close()


def test_one_that_does_not_answer_is_forgotten_at_once() -> None:
    found = InspectedServers(Settings(), whole_environment())
    with pytest.raises(Exception, match="cannot be reached"):
        found.server(InspectionTarget("http://127.0.0.1:1/mcp"))
    until(lambda: not threads(), "the last try")
    found.close()


def test_the_end_of_a_failed_try_leaves_the_next_one() -> None:
    """Issue 12, item 19: two requests fail together, and a third one has begun before the second is forgotten."""
    found, wanted = InspectedServers(Settings(), whole_environment()), InspectionTarget("http://127.0.0.1:1/mcp")
    try:
        first = found._open(wanted)
        found._forget(wanted, first)
        second = found._open(wanted)
        assert second is not first
        found._forget(wanted, first)
        assert found._open(wanted) is second
    finally:
        found.close()


def test_an_endpoint_that_was_never_named_is_unknown(looker: Hub) -> None:
    dispatcher = InspectionDispatcher(looker.app.parts.dispatcher, looker.app.parts.for_pages.inspected_servers)
    for endpoint in ("", "echo", "inspect/0"):
        with pytest.raises(UnknownServer):
            dispatcher.server(endpoint)
