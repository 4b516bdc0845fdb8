"""Rooms over HTTP: envelopes posted, events streamed and resumed, the signed log exported, rooms made and forked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from werkzeug.test import TestResponse

from patchbay.rooms.record.verification import verify
from tests.hubs import Hub
from tests.rooms.people import envelope, hello
from tests.waiting import until

Json = dict[str, Any]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the room demo."""
    hub = Hub(tmp_path_factory.mktemp("hub"), room_rate=10_000.0)
    assert put(hub, "/rooms/demo").status_code == 201
    yield hub
    hub.close()


def put(hub: Hub, path: str, options: Json | None = None) -> TestResponse:
    return hub.client.put(path, data=orjson.dumps(options or {}), content_type="application/json")


def posted(hub: Hub, value: Any, session: str = "", path: str = "/rooms/demo", **headers: str) -> TestResponse:
    given = headers | ({"Enso-Session": session} if session else {})
    if isinstance(value, list):
        lines = b"\n".join(orjson.dumps(one) for one in value)
        return hub.client.post(path, data=lines, content_type="application/x-ndjson", headers=given)
    return hub.client.post(path, data=orjson.dumps(value), content_type="application/json", headers=given)


def read(answer: TestResponse) -> Json:
    found: Json = orjson.loads(answer.data)
    return found


def joined(hub: Hub, *caps: str) -> str:
    answer = posted(hub, {"type": "hello", "payload": hello(*(caps or ("can.speak",)))})
    assert answer.status_code == 200, answer.text
    types = [one["type"] for one in read(answer)["answers"]]
    assert types[:3] == ["privacy.accepted", "room.policy", "presence.join"]
    assert answer.headers["Enso-Session"] == read(answer)["session"]
    return str(read(answer)["session"])


def events_of(answer: TestResponse, count: int) -> list[tuple[str, Json]]:
    """The first events of a stream: id and envelope."""
    found: list[tuple[str, Json]] = []
    for frame in answer.response:
        assert isinstance(frame, bytes)
        lines = dict(line.split(": ", 1) for line in frame.decode().splitlines() if ": " in line)
        if "data" in lines:
            found.append((lines.get("id", ""), orjson.loads(lines["data"])))
        if len(found) == count:
            break
    answer.close()
    return found


def test_an_envelope_is_logged_and_its_place_comes_back(hub: Hub) -> None:
    """ENS-18: POST takes an envelope; a repeated id is one entry."""
    session = joined(hub)
    message = envelope("chat.msg", {"text": "hello"})
    answer = read(posted(hub, message, session))
    assert answer["id"] == message["id"]
    assert answer["duplicate"] is False
    again = read(posted(hub, message, session))
    assert again == {**answer, "duplicate": True}


def test_several_envelopes_are_taken_in_order_with_the_hello_among_them(hub: Hub) -> None:
    """ENS-18: NDJSON; a line that cannot be read is named, and what follows is not taken."""
    lines = [{"type": "hello", "payload": hello("can.speak")}, *(envelope("chat.msg", {"text": "x"}) for _ in range(3))]
    answer = posted(hub, [*lines, {"type": "chat.msg"}, lines[1]])
    rows = [orjson.loads(line) for line in answer.data.splitlines()]
    assert len(rows) == 5
    assert [row["seq"] for row in rows[1:4]] == list(range(rows[1]["seq"], rows[1]["seq"] + 3))
    assert rows[4]["error"].startswith("line 5: the envelope's id is None")


def test_a_refusal_of_the_room_is_answered_with_403_and_a_reason(hub: Hub) -> None:
    """ENS-19: a call of an unknown server is answered with tool.result ok:false."""
    session = joined(hub, "tool.call")
    call = {"callId": "b9b1a2f4-0000-4000-8000-000000000001", "provider": "mcp", "serverId": "none", "name": "x"}
    answer = posted(hub, envelope("tool.call", {**call, "args": {}}), session)
    assert answer.status_code == 403
    assert "none" in read(answer)["refusal"]
    assert read(answer)["answers"][0]["payload"]["ok"] is False


@pytest.mark.parametrize(
    ("body", "kind", "session", "status"),
    [
        (b"{", "application/json", "x", 400),
        (b"{}", "text/plain", "x", 415),
        (orjson.dumps(envelope("chat.msg", {})), "application/json", "", 400),
        (orjson.dumps(envelope("chat.msg", {})), "application/json", "unknown", 403),
    ],
)
def test_wrong_requests_are_refused(hub: Hub, body: bytes, kind: str, session: str, status: int) -> None:
    """ENS-18: no JSON, another media type, no session, an unknown session."""
    headers = {"Enso-Session": session} if session else {}
    assert hub.client.post("/rooms/demo", data=body, content_type=kind, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/rooms/demo/events"), ("GET", "/rooms/demo/log"), ("POST", "/rooms/demo"), ("PUT", "/rooms/evil")],
)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example"},
    ],
    ids=["origin", "fetch metadata", "link", "host"],
)
def test_requests_of_other_sites_are_refused(hub: Hub, method: str, path: str, headers: dict[str, str]) -> None:
    """ENS-14: the same checks as everything else of the hub."""
    before = {one.name for one in rooms_of(hub).all()}
    answer = hub.client.open(path, method=method, data=b"{}", content_type="application/json", headers=headers)
    assert answer.status_code in (403, 421)
    assert {one.name for one in rooms_of(hub).all()} == before


def rooms_of(hub: Hub) -> Any:
    return hub.app.parts.dispatcher.services.rooms


def test_events_are_streamed_and_resumed_by_the_id_of_the_last_one(hub: Hub) -> None:
    """ENS-16: ids are places in the log; nothing is missed or repeated."""
    session = joined(hub)
    stream = hub.client.get(f"/rooms/demo/events?session={session}", buffered=False)
    assert stream.mimetype == "text/event-stream"
    posted(hub, [envelope("chat.msg", {"text": str(number)}) for number in range(5)], joined(hub))
    begun = [one for one in events_of(stream, 4) if one[1]["type"] == "chat.msg"]
    last, known = begun[-1][0], int(begun[-1][1]["payload"]["text"])
    again = hub.client.get(f"/rooms/demo/events?session={session}", headers={"Last-Event-ID": last}, buffered=False)
    rest = events_of(again, 4 - known)
    assert [one["payload"]["text"] for _, one in rest] == [str(number) for number in range(known + 1, 5)]
    assert [int(id) for id, _ in rest] == list(range(int(last) + 1, int(last) + 5 - known))


def test_a_second_stream_of_a_session_ends_the_first(hub: Hub) -> None:
    """ENS-18: a client that opens its stream again reads on; the old stream ends, and the session stays."""
    session = joined(hub)
    first = hub.client.get(f"/rooms/demo/events?session={session}", buffered=False)
    second = hub.client.get(f"/rooms/demo/events?session={session}", buffered=False)
    assert first.get_data().startswith(b"retry:")
    first.close()
    posted(hub, envelope("chat.msg", {"text": "for the second"}), session)
    [(_, found)] = events_of(second, 1)
    assert found["payload"]["text"] == "for the second"
    assert session in rooms_of(hub).open("demo").state_now["sessions"]


def test_a_stream_without_a_session_joins_and_leaves_with_it(hub: Hub) -> None:
    """ENS-18: presence says who reads."""
    stream = hub.client.get("/rooms/demo/events", buffered=False)
    session = stream.headers["Enso-Session"]
    types = [one["type"] for _, one in events_of(stream, 3)]
    assert types == ["privacy.accepted", "room.policy", "presence.join"]
    until(lambda: session not in rooms_of(hub).open("demo").state_now["sessions"], "the end of the session")


def test_a_stream_that_joined_leaves_its_session_to_another_stream_that_reads_it(hub: Hub) -> None:
    """ENS-18: the session ends with the stream that joined only while that stream reads it."""
    first = hub.client.get("/rooms/demo/events", buffered=False)
    session = first.headers["Enso-Session"]
    second = hub.client.get(f"/rooms/demo/events?session={session}", buffered=False)
    first.get_data()
    first.close()
    left = hub.client.get("/rooms/demo/events", buffered=False)
    gone = left.headers["Enso-Session"]
    left.close()
    until(lambda: gone not in rooms_of(hub).open("demo").state_now["sessions"], "the end of a session that is not read")
    assert session in rooms_of(hub).open("demo").state_now["sessions"]
    posted(hub, envelope("chat.msg", {"text": "for the second"}), session)
    assert "for the second" in [one["payload"].get("text") for _, one in events_of(second, 3)]


def test_the_log_is_signed_ndjson_that_verifies(hub: Hub) -> None:
    """ENS-16: one audit trail, which anyone can check."""
    posted(hub, envelope("chat.msg", {"text": "for the log"}), joined(hub))
    answer = hub.client.get("/rooms/demo/log", headers={"Authorization": f"Bearer {hub.token}"})
    assert answer.mimetype == "application/x-ndjson"
    lines = answer.data.splitlines()
    found = verify(lines)
    assert found.ok, found
    assert found.head == rooms_of(hub).open("demo").head
    assert found.withheld == 0
    assert not verify([*lines[:3], lines[3].replace(b'"seq":4', b'"seq":5'), *lines[4:]]).ok


def test_reading_the_log_of_the_lobby_makes_no_room_and_a_hello_does(hub: Hub) -> None:
    """ENS-18: a GET of a log changes nothing; the lobby is made with the first hello in it."""
    assert hub.client.get("/rooms/lobby/log").status_code == 404
    assert posted(hub, envelope("chat.msg", {"text": "x"}), "no-session", "/rooms/lobby").status_code == 404
    assert "lobby" not in {one.name for one in rooms_of(hub).all()}
    said = posted(hub, {"type": "hello", "payload": hello("can.speak")}, path="/rooms/lobby")
    assert said.status_code == 200
    assert hub.client.get("/rooms/lobby/log").status_code == 200


def test_a_room_is_forked_at_an_entry(hub: Hub) -> None:
    """ENS-16: the new room names its predecessor, the seq and the head there."""
    answer = hub.client.post("/rooms/demo/fork", json={"seq": 2, "name": "branch"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == "/rooms/branch"
    [first] = rooms_of(hub).open("branch").entries(0, 1)
    assert first.entry.envelope["payload"]["predecessor"]["seq"] == 2
    assert hub.client.post("/rooms/demo/fork", json={"seq": 10_000, "name": "late"}).status_code == 400
    assert put(hub, "/rooms/branch").status_code == 409


def test_other_methods_and_options_are_refused(hub: Hub) -> None:
    """ENS-18: an error says what is expected."""
    answer = hub.client.patch("/rooms/demo")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "PUT, POST, DELETE")
    assert "expected policy, flags" in put(hub, "/rooms/other", {"colour": "red"}).text


def test_a_room_is_deleted_as_its_exported_log_ends(hub: Hub) -> None:
    """48.4: the newest entry is named, so that nothing is deleted that the sender has not read."""
    head = read(put(hub, "/rooms/brief"))["head"]
    assert hub.client.delete("/rooms/brief").status_code == 428
    assert hub.client.delete("/rooms/brief", headers={"If-Match": '"bafkreia"'}).status_code == 412
    assert verify(hub.client.get("/rooms/brief/log").data.splitlines()).head == head
    assert hub.client.delete("/rooms/brief", headers={"If-Match": f'"{head}"'}).status_code == 204
    assert hub.client.get("/rooms/brief/log").status_code == 404
    assert put(hub, "/rooms/brief").status_code == 201


def test_strangers_of_an_open_hub_delete_no_room(tmp_path: Path) -> None:
    hub = Hub(tmp_path, access="open")
    proof = {"Authorization": f"Bearer {hub.token}"}
    head = read(hub.client.put("/rooms/mine", headers=proof))["head"]
    assert hub.client.delete("/rooms/mine", headers={"If-Match": head}).status_code == 403
    assert hub.client.delete("/rooms/mine", headers={"If-Match": head} | proof).status_code == 204
    hub.close()


@pytest.mark.parametrize("kind", [None, "application/json", "application/x-www-form-urlencoded"])
def test_a_room_is_made_without_a_body(hub: Hub, kind: str | None) -> None:
    """34.13: `curl -X PUT` sends none, and names no type or any."""
    name = f"bodyless-{'none' if kind is None else kind.partition('/')[2]}"
    answer = hub.client.put(f"/rooms/{name}", content_type=kind)
    assert (answer.status_code, read(answer)["name"]) == (201, name)
    assert hub.client.put(f"/rooms/{name}-too", data=b"{}", content_type="text/plain").status_code == 415


def test_a_posted_envelope_that_cannot_be_read_is_answered_with_400(hub: Hub) -> None:
    """34.13: with the answer that a WebSocket would get; what follows in the same request is taken."""
    session, bad = joined(hub), envelope("caps.update", {"caps": "all"})
    answer = posted(hub, bad, session)
    assert (answer.status_code, read(answer)["answers"][0]["type"]) == (400, "room.refused")
    assert read(answer)["answers"][0]["rel"] == {"replyTo": bad["id"]}
    several = read_lines(posted(hub, [bad, envelope("chat.msg", {"text": "next"})], session))
    assert [bool(one.get("refusal")) for one in several] == [True, False]


def read_lines(answer: TestResponse) -> list[Json]:
    return [orjson.loads(line) for line in answer.data.splitlines()]


def test_on_an_open_hub_strangers_create_and_fork_no_room(tmp_path: Path) -> None:
    """A stranger joins a room of an open hub; the operator alone makes one."""
    open_hub = Hub(tmp_path, access="open")
    token = {"Authorization": f"Bearer {open_hub.token}"}
    try:
        refused = put(open_hub, "/rooms/town")
        assert refused.status_code == 403 and "the operator alone creates, forks and deletes rooms" in refused.text
        made = open_hub.client.put("/rooms/town", data=b"{}", content_type="application/json", headers=token)
        assert made.status_code == 201
        assert joined_at(open_hub, "/rooms/town").status_code == 200
        fork = open_hub.client.post("/rooms/town/fork", json={"seq": 1, "name": "other"})
        assert fork.status_code == 403
    finally:
        open_hub.close()


def joined_at(hub: Hub, path: str) -> TestResponse:
    return posted(hub, {"type": "hello", "payload": hello("can.speak")}, path=path)
