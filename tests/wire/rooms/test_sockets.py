"""Rooms by WebSocket: clients made with npm `ws`, framed as the published Enso reference frames its messages."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.interaction.programs import Hub, running_hub
from tests.wire.rooms.enso import EnsoClient, EnsoProcess, Json, enso_clients

TOOL = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
OWNER = ["tool.call", "tool.host", "mcp.client", "mcp.server:fs"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that runs, with the room demo; it may be mounted by its rooms itself."""
    folder = tmp_path_factory.mktemp("hub")
    with running_hub(folder / "run", options=["--mount-hosts", "127.0.0.1", "--room-rate", "1000"]) as hub:
        status, _ = requested(hub, "PUT", "/rooms/demo", {})
        assert status == 201
        yield hub


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnsoProcess]:
    with enso_clients(tmp_path_factory.mktemp("home")) as clients:
        yield clients


def requested(hub: Hub, method: str, path: str, body: Json) -> tuple[int, Json]:
    connection = http.client.HTTPConnection(hub.url.removeprefix("http://"), timeout=60)
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read() or b"{}")
    connection.close()
    return found


def room_url(hub: Hub, path: str = "/rooms/demo/ws") -> str:
    return hub.url.replace("http", "ws", 1) + path


def called(client: EnsoClient, server: str, name: str, **more: object) -> str:
    call = str(uuid4())
    client.says("tool.call", {"callId": call, "provider": "mcp", "serverId": server, "name": name, "args": {}, **more})
    return call


def test_a_hello_is_answered_by_privacy_policy_and_presence(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-1, ENS-2, ENS-3, ENS-18: without privacy in the hello the profile is pseudonymous."""
    client = clients.client(room_url(hub), caps=OWNER, agent={"name": "reference", "version": "1"})
    types = [one["payload"]["type"] for one in client.frames]
    assert types[:3] == ["privacy.accepted", "room.policy", "presence.join"]
    accepted = client.frames[0]["payload"]["payload"]
    assert accepted["profile"] == "pseudonymous"
    assert accepted["negotiatedCaps"] == OWNER
    client.asks(close=True)


def test_the_address_of_the_reference_leads_to_the_lobby_or_the_room_that_it_names(
    hub: Hub, clients: EnsoProcess
) -> None:
    """ENS-18: `/ws` is the lobby, `/ws?room=demo` a room."""
    lobby = clients.client(room_url(hub, "/ws"), caps=["can.speak"])
    assert lobby.waits_for("room.policy")["payload"]["name"] == "lobby"
    demo = clients.client(room_url(hub, "/ws?room=demo"), caps=["can.speak"])
    assert demo.waits_for("room.policy")["payload"]["name"] == "demo"
    for client in (lobby, demo):
        client.asks(close=True)


def test_an_announced_server_is_called_with_partials_and_a_result(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-7, ENS-8, ENS-9, ENS-11, ENS-12: announce, advertise, call, partial, result by the reference's frames."""
    owner = clients.client(room_url(hub), caps=OWNER)
    caller = clients.client(room_url(hub), caps=["tool.call"])
    owner.says("mcp.announce", {"serverId": "fs", "tools": [TOOL], "resources": []})
    assert caller.waits_for("tool.advertise")["payload"]["tools"][0]["name"] == "read"
    call = called(caller, "fs", "read", args={"path": "a"})
    made = owner.waits_for("tool.call", lambda payload: payload["callId"] == call)
    assert made["payload"]["args"] == {"path": "a"}
    owner.says("tool.partial", {"callId": call, "partial": {"type": "text", "text": "half"}, "seq": 0})
    owner.says("tool.result", {"callId": call, "ok": True, "result": {"content": [{"type": "text", "text": "all"}]}})
    assert caller.waits_for("tool.partial")["payload"]["partial"]["text"] == "half"
    result = caller.waits_for("tool.result", lambda payload: payload["callId"] == call)["payload"]
    assert result["ok"] is True
    assert result["result"]["content"][0]["text"] == "all"
    open_call = called(caller, "fs", "read")
    owner.waits_for("tool.call", lambda payload: payload["callId"] == open_call)
    owner.asks(close=True)
    ended = caller.waits_for("tool.result", lambda payload: payload["callId"] == open_call)["payload"]
    assert ended["ok"] is False
    assert "left the room" in ended["error"]
    caller.asks(close=True)


def test_a_server_is_mounted_by_its_url_and_called(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-4, ENS-5, ENS-6, ENS-10: the hub opens the session, mirrors the tools and translates calls."""
    client = clients.client(room_url(hub), caps=["tool.call", "mcp.client"])
    transport = {"kind": "http-stream", "url": hub.endpoint("hello")}
    client.says(
        "mcp.mount", {"serverId": "greeter", "transport": transport, "exposeTools": True, "exposeResources": []}
    )
    advert = client.waits_for("tool.advertise", lambda payload: payload["serverId"] == "greeter")["payload"]
    name = advert["tools"][0]["name"]
    call = called(client, "greeter", name, args={"name": "Ada"})
    result = client.waits_for("tool.result", lambda payload: payload["callId"] == call)["payload"]
    assert result["ok"] is True, result
    assert "Ada" in json.dumps(result["result"])
    client.asks(close=True)


def test_a_call_goes_on_when_its_caller_loses_the_connection_and_comes_back(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-9, ENS-12: `?resume=` keeps the session; what was missed and the result come on the new connection."""
    owner = clients.client(room_url(hub), caps=OWNER)
    owner.says("mcp.announce", {"serverId": "fs", "tools": [TOOL], "resources": []})
    caller = clients.client(room_url(hub, "/rooms/demo/ws?resume=new"), caps=["tool.call"])
    accepted = caller.waits_for("privacy.accepted")["payload"]
    place = caller.waits_for("room.policy")["payload"]["seq"]
    caller.waits_for("tool.advertise")
    call = called(caller, "fs", "read")
    owner.waits_for("tool.call", lambda payload: payload["callId"] == call)
    caller.asks(terminate=True)
    caller.waits_for_close()
    owner.says("chat.msg", {"text": "meanwhile"})
    back = clients.client(
        room_url(hub, f"/rooms/demo/ws?resume={accepted['session']}&after={place}"), caps=["tool.call"]
    )
    assert back.waits_for("privacy.accepted")["payload"] == accepted
    back.waits_for("tool.call", lambda payload: payload["callId"] == call)
    back.waits_for("chat.msg", lambda payload: payload["text"] == "meanwhile")
    owner.says("tool.result", {"callId": call, "ok": True, "result": {"content": []}})
    assert back.waits_for("tool.result", lambda payload: payload["callId"] == call)["payload"]["ok"] is True
    back.says("tool.cancel", {"callId": call})
    back.waits_for("room.refused", lambda payload: payload["error"] == f"no call {call} is open")
    for client in (owner, back):
        client.asks(close=True)


def test_a_session_has_one_connection_and_one_that_ended_is_not_resumed(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-18: a second connection replaces the first; after a close the same address makes a new session."""
    first = clients.client(room_url(hub, "/rooms/demo/ws?resume=new"), caps=["can.speak"])
    session = first.waits_for("privacy.accepted")["payload"]["session"]
    second = clients.client(room_url(hub, f"/rooms/demo/ws?resume={session}"), caps=["can.speak"])
    assert second.waits_for("privacy.accepted")["payload"]["session"] == session
    assert first.waits_for_close() == (1000, "the session goes on over another connection")
    watcher = clients.client(room_url(hub), caps=["can.speak"])
    second.asks(close=True)
    watcher.waits_for("presence.part", lambda payload: payload["session"] == session)
    third = clients.client(room_url(hub, f"/rooms/demo/ws?resume={session}"), caps=["can.speak"])
    assert third.waits_for("privacy.accepted")["payload"]["session"] != session
    for client in (watcher, third):
        client.asks(close=True)


def test_an_owner_that_loses_its_connection_leaves_at_once(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-19: calls of its servers end with a sentence, also when its session asked to be resumed."""
    owner = clients.client(room_url(hub, "/rooms/demo/ws?resume=new"), caps=OWNER)
    owner.says("mcp.announce", {"serverId": "fs", "tools": [TOOL], "resources": []})
    owner.waits_for("tool.advertise")
    caller = clients.client(room_url(hub), caps=["tool.call"])
    call = called(caller, "fs", "read")
    owner.waits_for("tool.call", lambda payload: payload["callId"] == call)
    owner.asks(terminate=True)
    ended = caller.waits_for("tool.result", lambda payload: payload["callId"] == call)["payload"]
    assert "left the room" in ended["error"]
    caller.asks(close=True)


def test_pings_are_answered_before_and_after_the_hello(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-18: ping and pong frames."""
    client = clients.client(room_url(hub))
    client.asks(ping="one")
    clients.wait(lambda: {"type": "pong", "ts": "one"} in client.frames, "the pong")
    client.asks(hello={"proto": "ENSO-1", "caps": ["can.speak"]})
    client.waits_for("presence.join")
    client.asks(ping="two")
    clients.wait(lambda: {"type": "pong", "ts": "two"} in client.frames, "the second pong")
    client.asks(close=True)


def test_bytes_inside_an_envelope_arrive_as_they_were_sent(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-18: bytes are `__enso_binary__` in base64."""
    sender = clients.client(room_url(hub), caps=["can.speak"])
    reader = clients.client(room_url(hub), caps=["can.speak"])
    data = base64.b64encode(bytes(range(256))).decode()
    sender.says("asset.put", {"asset": "picture", "data": {"bytes64": data}})
    assert reader.waits_for("asset.put")["payload"]["data"] == {"__enso_binary__": data}
    for client in (sender, reader):
        client.asks(close=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('{"type": "greeting"}', "expected hello, envelope, ping or pong"),
        ('{"type": "envelope", "payload": {}}', "before the hello"),
        ('{"type": "hello"}', "no payload"),
    ],
)
def test_a_frame_that_cannot_be_read_closes_with_1011(hub: Hub, clients: EnsoProcess, text: str, reason: str) -> None:
    """ENS-18: as the reference does; the reason says what was expected."""
    client = clients.client(room_url(hub))
    client.asks(text=text)
    code, told = client.waits_for_close()
    assert code == 1011
    assert reason in told


@pytest.mark.parametrize(
    ("hello", "reason", "query"),
    [
        ({"proto": "ENSO-2", "caps": ["x"]}, "ENSO-1", ""),
        ({"proto": "ENSO-1", "caps": []}, "caps", ""),
        ({"proto": "ENSO-1", "caps": ["x"], "privacy": {"profile": "loud"}}, "no known profile", ""),
        ({"proto": "ENSO-1", "caps": ["x"]}, "expected the seq of an entry", "?after=then"),
    ],
)
def test_a_refused_hello_closes_with_1008(hub: Hub, clients: EnsoProcess, hello: Json, reason: str, query: str) -> None:
    """34.13: whatever is wrong with it, if the frame can be read."""
    client = clients.client(room_url(hub, f"/rooms/demo/ws{query}"))
    client.asks(hello=hello)
    code, told = client.waits_for_close()
    assert (code, reason in told) == (1008, True)


def test_a_badly_formed_envelope_ends_neither_the_session_nor_its_servers(hub: Hub, clients: EnsoProcess) -> None:
    """34.13: each is answered, over a WebSocket that stays open, and what is shared goes on."""
    owner = clients.client(room_url(hub), caps=OWNER)
    caller = clients.client(room_url(hub), caps=["tool.call"])
    owner.says("mcp.announce", {"serverId": "fs", "tools": [TOOL]})
    caller.waits_for("tool.advertise", lambda payload: "read" in payload["digests"])
    owner.says("mcp.mount", {"serverId": "bad"})
    assert "the mount has no transport" in owner.waits_for("mcp.mount.failed")["payload"]["error"]
    wrong: list[tuple[str, Json, str]] = [
        ("caps.update", {"caps": "all"}, "caps is not a list"),
        ("mcp.announce", {"serverId": "fs", "tools": 3}, "are not a list of MCP descriptors"),
        ("tool.result", {"callId": [], "ok": True}, "callId is []; expected a string"),
        ("room.member", {"member": "x", "role": []}, "expected one of"),
    ]
    for type, payload, sentence in wrong:
        owner.says(type, payload)
        told = owner.waits_for("room.refused", lambda payload, type=type: payload["type"] == type)  # type: ignore[misc]
        assert sentence in told["payload"]["error"] or "no power" in told["payload"]["error"]
    call = called(caller, "fs", "read")
    owner.waits_for("tool.call", lambda payload: payload["callId"] == call)
    owner.says("tool.result", {"callId": call, "ok": True, "result": "shared all the same"})
    assert caller.waits_for("tool.result", lambda payload: payload["callId"] == call)["payload"]["ok"]
    for client in (owner, caller):
        client.asks(close=True)


def test_a_relayed_envelope_names_its_room(hub: Hub, clients: EnsoProcess) -> None:
    """34.13: the reference client writes `local`; readers get the name of the room."""
    speaker, reader = (clients.client(room_url(hub), caps=["can.speak"]) for _ in range(2))
    speaker.says("chat.msg", {"text": "where am I?"})
    told = reader.waits_for("chat.msg", lambda payload: payload["text"] == "where am I?")
    assert told["room"] == "demo"
    for client in (speaker, reader):
        client.asks(close=True)


def test_binary_messages_and_a_second_hello_close_with_1011(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-18."""
    binary = clients.client(room_url(hub))
    binary.asks(bytes="AAAA")
    assert binary.waits_for_close()[0] == 1011
    twice = clients.client(room_url(hub), caps=["can.speak"])
    twice.asks(hello={"proto": "ENSO-1", "caps": ["can.speak"]})
    assert twice.waits_for_close()[0] == 1011


def test_unknown_rooms_are_refused_with_a_sentence_and_other_sites_with_403(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-14: a page of another site opens no WebSocket."""
    unknown = clients.client(room_url(hub, "/rooms/nowhere/ws"))
    unknown.asks(hello={"proto": "ENSO-1", "caps": ["can.speak"]})
    assert unknown.waits_for_close() == (1008, "there is no room 'nowhere'")
    connection = http.client.HTTPConnection(hub.url.removeprefix("http://"), timeout=60)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "https://evil.example"}
    connection.request("GET", "/rooms/demo/ws", headers=headers)
    assert connection.getresponse().status == 403
    connection.close()


def test_a_client_that_comes_back_reads_what_it_missed(hub: Hub, clients: EnsoProcess) -> None:
    """ENS-16: `?after=` reads the log from there on; the seq of each frame is its place in the log."""
    first = clients.client(room_url(hub), caps=["can.speak"])
    first.says("chat.msg", {"text": "one"})
    seq = clients.wait(
        lambda: next((one["seq"] for one in first.frames if one["payload"]["type"] == "chat.msg"), None), "the message"
    )
    for number in range(300):
        first.says("chat.msg", {"text": f"message {number}"})
    first.waits_for("chat.msg", lambda payload: payload["text"] == "message 299")
    back = clients.client(room_url(hub, f"/rooms/demo/ws?after={seq}"), caps=["can.speak"])
    back.waits_for("chat.msg", lambda payload: payload["text"] == "message 299")
    texts = [one["payload"]["payload"]["text"] for one in back.frames if one["payload"]["type"] == "chat.msg"]
    assert texts == [f"message {number}" for number in range(300)]
    for client in (first, back):
        client.asks(close=True)
