"""A caller who is not the operator makes a tool fail, to read its code, its files and its hidden messages.

The operator gets the lines of the code that raised (issue 47 item 5). Each way by which another caller could get the
same answer is tried here. Sources: CWE-209; DESIGN, section 11.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from patchbay.activity.records import Filter
from patchbay.raised.forms import RAISED_KEY, read_raised
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import MODERN, Hub
from tests.signing_in import OAuthClient, shared_hub, signed_in
from tests.waiting import until

CODE = "return SECRETS[name]"
SOURCE = f'''"""A tool with a line that only its author knows."""

SECRETS = {{}}


def show(name: str) -> str:
    """Show a secret."""
    {CODE}


def ask(context, name: str) -> str:
    """Fail in the background."""
    context.background()
    {CODE}


def outer(context, name: str) -> dict:
    """Return what another tool answers, all of it."""
    return {{"answer": context.call("vault", "show", name=name)}}
'''
CONFIGURATION = {"auto_discover": True, "resources": {"plan": {"uri": "plan://now", "function": "show"}}}
FILES = {"vault.py": SOURCE, "vault.mcp.json": json.dumps(CONFIGURATION)}
ARGUMENTS = {"name": "show", "arguments": {"name": "x"}}


def leaks(body: bytes) -> bool:
    """Whether an answer has a line, a place or the key of what the code raised."""
    return any(word in body for word in (CODE.encode(), b"vault.py", RAISED_KEY.encode(), b"Traceback"))


@pytest.fixture(scope="module")
def personal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("personal"), FILES)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("shared"), FILES)
    grants = [
        {"to": ["key:admin"], "may": ["operate"], "on": ["*"]},
        {"to": ["key:ann"], "may": ["see", "call", "read"], "on": ["*"]},
    ]
    set_grants(hub, {"grants": grants})
    yield hub
    hub.close()


def call(hub: Hub, headers: Mapping[str, str], params: Mapping[str, Any] = ARGUMENTS, **more: Any) -> bytes:
    return hub.modern("vault", "tools/call", params, headers=headers, **more).body


def test_a_caller_of_this_machine_without_a_proof_gets_the_message_alone(personal: Hub) -> None:
    body = call(personal, {})
    assert b"KeyError" in body and not leaks(body)
    assert leaks(call(personal, {"Authorization": f"Bearer {personal.token}"})), "the operator gets it"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer pb_operator_wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic b3BlcmF0b3I6eA=="},
        {"Authorization": "bearer x", "X-Operator": "true"},
        {"Cookie": "patchbay-operator=x; session=operator"},
    ],
)
def test_a_wrong_proof_gets_the_message_alone(personal: Hub, headers: Mapping[str, str]) -> None:
    assert not leaks(call(personal, headers))


def test_a_caller_cannot_ask_for_it_in_meta(personal: Hub) -> None:
    meta = {RAISED_KEY: [], "io.patchbay/operator": True}
    assert not leaks(call(personal, {}, meta=meta))


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_no_older_revision_gives_it_to_others(personal: Hub, version: str) -> None:
    assert not leaks(personal.call("vault", "show", {"name": "x"}, version).body)
    read = personal.legacy("vault", "resources/read", {"uri": "plan://now"}, version=version)
    assert "error" in read.last and not leaks(read.body)


def test_plain_http_and_the_native_interface_do_not_give_it(personal: Hub) -> None:
    plain = personal.client.post("/vault/show", json={"name": "x"}, headers={"Sec-Fetch-Site": "same-origin"})
    assert plain.status_code == 500 and not leaks(plain.data)
    native = {"jsonrpc": "2.0", "id": 1, "method": "vault.show", "params": {"name": "x"}}
    found = personal.client.post("/rpc", json=native, headers={"Accept": "application/json, text/event-stream"})
    assert b"KeyError" in found.data and not leaks(found.data)


def test_a_batch_gives_it_only_to_the_operator(personal: Hub) -> None:
    batch = [{"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": ARGUMENTS} for number in (1, 2)]
    assert not leaks(personal.send("vault", batch, {"MCP-Protocol-Version": "2025-03-26"}).body)


def test_a_member_gets_the_message_and_an_administrator_the_lines(shared: Hub) -> None:
    assert not leaks(call(shared, new_key(shared, "ann")))
    assert leaks(call(shared, new_key(shared, "admin")))
    assert leaks(call(shared, {"Authorization": f"Bearer {shared.token}"}))


def test_a_key_of_an_administrator_with_scopes_gets_the_message_alone(shared: Hub) -> None:
    document = {"grants": [{"to": ["key:narrow"], "may": ["operate"], "on": ["*"]}]}
    set_grants(shared, document)
    try:
        body = call(shared, new_key(shared, "narrow", ["call:vault.*", "see:vault"]))
    finally:
        set_grants(shared, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]})
    assert b"KeyError" in body and not leaks(body)


def test_the_records_show_it_to_the_operator_alone(shared: Hub) -> None:
    set_grants(shared, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]})
    member = new_key(shared, "reader")
    call(shared, member)
    shared.activity.flush()
    [record] = shared.activity.recent(Filter(server="vault"), 1).records
    for form in (".json", ""):
        found = shared.client.get(f"/activity/{record.id}{form}", headers=member | {"Accept": "text/html"})
        assert found.status_code == 200 and CODE.encode() not in found.data
    operator = {"Authorization": f"Bearer {shared.token}"}
    assert CODE.encode() in shared.client.get(f"/activity/{record.id}.json", headers=operator).data


def test_a_stream_that_can_be_replayed_does_not_hold_it(personal: Hub) -> None:
    """The session of the operator, or its id, does not give it to a caller without the proof."""
    proof = {"Authorization": f"Bearer {personal.token}"}
    session = personal.open("vault")
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": ARGUMENTS | {"_meta": {"progressToken": 1}}}
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    assert not leaks(personal.send("vault", message, headers | proof).body)


def test_the_result_of_a_task_does_not_hold_it(personal: Hub) -> None:
    proof = {"Authorization": f"Bearer {personal.token}"}
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    params = {"name": "ask", "arguments": {"name": "x"}}
    task = personal.modern("vault", "tools/call", params, capabilities, headers=proof).result["taskId"]

    def poll() -> Any:
        return personal.modern("vault", "tasks/get", {"taskId": task}, capabilities)

    until(lambda: poll().result["status"] != "working", "the task has ended")
    assert b"KeyError" in poll().body and not leaks(poll().body)


def test_a_call_that_survives_its_connection_does_not_hold_it(personal: Hub) -> None:
    proof = {"Authorization": f"Bearer {personal.token}"}
    meta = {"io.patchbay/call": "6f0c1a52-5b1f-4e9e-9d3b-0a6f5f0f4b7e", "progressToken": 1}
    assert not leaks(call(personal, proof, meta=meta))


def test_a_tool_does_not_get_what_another_tool_raised(personal: Hub) -> None:
    answer = personal.modern(
        "vault",
        "tools/call",
        {"name": "outer", "arguments": {"name": "x"}},
        headers={"Authorization": f"Bearer {personal.token}"},
    )
    assert b"KeyError" in answer.body and not leaks(answer.body)


def test_a_mount_does_not_pass_on_what_another_hub_shows_to_its_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mounting hub is the operator of the mounted one; its own callers are not."""
    inner = Hub(tmp_path / "inner", FILES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = make_server("127.0.0.1", port, inner.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    entry = {
        "url": f"http://127.0.0.1:{port}/mcp/vault",
        "headers": {"Authorization": "${INNER_AUTHORIZATION}"},
    }
    monkeypatch.setenv("INNER_AUTHORIZATION", f"Bearer {inner.token}")
    outer = Hub(tmp_path / "outer", {"far.json": json.dumps(entry)})
    try:
        until(lambda: "show" in outer.catalogue.find("far").tools, "the mount lists its tools")
        for proof in ({}, {"Authorization": f"Bearer {outer.token}"}):
            answer = outer.modern("far", "tools/call", ARGUMENTS, headers=proof)
            assert b"KeyError" in answer.body and not leaks(answer.body)
            read = outer.modern("far", "resources/read", {"uri": "plan://now"}, headers=proof)
            assert "error" in read.last and not leaks(read.body)
    finally:
        outer.close()
        server.shutdown()
        thread.join()
        server.server_close()
        inner.close()


def test_an_agent_of_an_administrator_gets_the_message_alone(tmp_path: Path) -> None:
    hub = shared_hub(tmp_path)
    try:
        (hub.servers / "vault.py").write_text(SOURCE)
        until(lambda: "vault" in hub.catalogue.served, "the server is there")
        set_grants(hub, {"grants": [{"to": ["*"], "may": ["operate"], "on": ["*"]}]})
        resource = "http://localhost/mcp/vault"
        access = OAuthClient(hub).register().sign_in(signed_in(hub, "ann"), resource=resource).access
        body = hub.modern("vault", "tools/call", ARGUMENTS, headers={"Authorization": f"Bearer {access}"}).body
    finally:
        hub.close()
    assert b"KeyError" in body and not leaks(body)


def test_the_operator_reads_it_in_every_form_of_the_proof(personal: Hub) -> None:
    """What the others are refused is there: a token, and the session of a browser."""
    result = personal.modern(
        "vault", "tools/call", ARGUMENTS, headers={"Authorization": f"Bearer {personal.token}"}
    ).result
    assert read_raised(result)[0].frames[-1].text == CODE
    browser = Hub.__new__(Hub)
    browser.app, browser.client = personal.app, personal.app.test_client()
    assert leaks(browser.log_in().call("vault", "show", {"name": "x"}, MODERN).body)
