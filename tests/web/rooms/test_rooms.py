"""The pages of rooms: what they show to whom, what they change, and that what members wrote stays text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.rooms.record.errors import WrongLog
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.views.hidden_characters import find_hidden_character
from tests.hubs import Hub
from tests.rooms.people import Person
from tests.web.browsing import BROWSER, links, read, read_json
from tests.wire.hostile import HOSTILE, Reader, is_shown

SAME_ORIGIN = {"Origin": "http://localhost", **BROWSER}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), {}, room_rate=100_000.0, allowed_origins=("http://friend.example",))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Hub:
    """The same hub, seen by its operator."""
    other = Hub.__new__(Hub)
    other.__dict__ |= hub.__dict__ | {"client": hub.app.test_client()}
    return other.as_operator()


def rooms_of(hub: Hub) -> Rooms:
    found: Rooms = hub.app.parts.dispatcher.services.rooms
    return found


def room_with(hub: Hub, name: str, **policy: Any) -> Room:
    return rooms_of(hub).create(name, "alice", {"policy": policy})


def words(hub: Hub, path: str, status: int = 200) -> str:
    page = Reader(read(hub, path, status))
    assert page.faults == []
    return " ".join(page.text.split())


def iter_bytes(answer: TestResponse) -> Iterator[bytes]:
    """The frames of a stream as they come."""
    return (frame for frame in answer.response if isinstance(frame, bytes))


def send(hub: Hub, **fields: str) -> TestResponse:
    return hub.client.post("/rooms", data=fields, headers=SAME_ORIGIN)


def test_the_list_has_each_room_with_its_members_and_servers(hub: Hub) -> None:
    """ENS-1, ROOMS 3: name, who is there, what is shared, and a line to announce a server."""
    room = room_with(hub, "listed")
    Person(room, "bo", agent={"name": "laptop"}).announces("fs")
    text = words(hub, "/rooms")
    for part in ("listed", "Shares fs (2 tools).", "1 member", "2 tools"):
        assert part in text, part
    assert "patchbay room announce http://localhost/rooms/" in text
    assert "/rooms/listed" in links(read(hub, "/rooms"))
    row = next(one for one in read_json(hub.client.get("/rooms.json"))["rooms"] if one["name"] == "listed")
    assert row["numbers"]["servers"] == 1


def test_the_page_shows_members_tools_calls_policy_and_log(hub: Hub) -> None:
    """ENS-1, ROOMS 3: a room with its content; tools can be tried at the MCP server of the room."""
    room = room_with(hub, "lively", history="all")
    laptop = Person(room, "bo", agent={"name": "laptop"})
    laptop.announces("fs")
    planner = Person(room, "cy", agent={"name": "planner"})
    laptop.answers(planner.calls("fs", "read", {"path": "a"}), {"content": []})
    laptop.says("tool.result", {"callId": planner.calls("fs", "list"), "ok": False, "error": "the disk is gone"})
    planner.says("chat.msg", {"text": "what now?"})
    html, text = read(hub, "/rooms/lively"), words(hub, "/rooms/lively")
    for part in ("laptop (", "planner (", "mcp.server:fs", "may announce, call", "what now?", "the disk is gone"):
        assert part in text, part
    assert 'data-try="tool" data-key="fs__read" data-endpoint="/mcp/room.lively"' in html
    calls = read_json(hub.client.get("/rooms/lively.json"))["calls"]
    assert [(one["tool"], one["outcome"]) for one in calls] == [("list", "failed"), ("read", "worked")]
    assert "patchbay room mount http://localhost/rooms/lively" in text


def test_reading_a_page_joins_nothing_and_logs_nothing(hub: Hub) -> None:
    """A page is not a participant; ENS-15."""
    room = room_with(hub, "quiet")
    for path in ("/rooms", "/rooms/quiet", "/rooms/quiet?verify=yes"):
        read(hub, path)
    assert room.seq == 1
    assert "No member is in the room now." in words(hub, "/rooms/quiet")
    assert hub.client.get("/rooms/lobby", headers=BROWSER).status_code == 404
    assert "lobby" not in {one.name for one in rooms_of(hub).all()}


def test_a_reader_sees_the_history_that_the_policy_gives_it_and_the_operator_sees_all(hub: Hub, operator: Hub) -> None:
    """ENS-17: history visibility holds for pages."""
    room = room_with(hub, "secretive", history="joined")
    Person(room, "bo").says("chat.msg", {"text": "before you came"})
    assert "before you came" not in words(hub, "/rooms/secretive")
    assert "are withheld" in words(hub, "/rooms/secretive")
    assert "before you came" in words(operator, "/rooms/secretive")
    Person(room, "local").says("chat.msg", {"text": "since I joined"})
    assert "since I joined" in words(hub, "/rooms/secretive")


def test_a_room_for_invited_members_shows_nothing_to_others(hub: Hub, operator: Hub) -> None:
    """ENS-17, ROOMS 5."""
    room_with(hub, "inner", join="invite")
    assert "for invited members" in words(hub, "/rooms/inner", 403)
    assert hub.client.get("/rooms/inner/changes").status_code == 403
    rows = read_json(hub.client.get("/rooms.json"))["rooms"]
    assert next(one for one in rows if one["name"] == "inner")["numbers"] is None
    assert "invited members" in words(operator, "/rooms/inner")


def test_older_entries_stand_on_pages_of_their_own(hub: Hub) -> None:
    room = room_with(hub, "long", history="all")
    person = Person(room, "bo")
    for number in range(60):
        person.says("chat.msg", {"text": f"number {number}"})
    newest = read_json(hub.client.get("/rooms/long.json"))
    assert [row["seq"] for row in newest["entries"]] == list(range(62, 32, -1))
    older = read_json(hub.client.get(f"/rooms/long.json?before={newest['older']}"))
    assert [row["seq"] for row in older["entries"]] == list(range(32, 2, -1))
    oldest = read_json(hub.client.get(f"/rooms/long.json?before={older['older']}"))
    assert [row["seq"] for row in oldest["entries"]] == [2, 1]
    assert oldest["older"] is None
    assert hub.client.get("/rooms/long?before=99", headers=BROWSER).status_code == 400


def test_the_log_is_verified_and_a_wrong_entry_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENS-16: the button says the result, and the seq of the first wrong entry."""
    room = room_with(hub, "checked", history="all")
    person = Person(room, "bo")
    person.says("chat.msg", {"text": "paid 10"})
    assert "The log is intact. 3 entries checked" in words(hub, "/rooms/checked?verify=yes")
    export = Room.lines

    def forged(self: Room, after: int = 0, principal: str | None = None) -> Iterator[bytes]:
        return (line.replace(b"paid 10", b"paid 99") for line in export(self, after, principal))

    monkeypatch.setattr(Room, "lines", forged)
    assert "Entry 3 is wrong." in words(hub, "/rooms/checked?verify=yes")


def test_a_broken_log_is_named_on_the_pages(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENS-16: the page stays, and says which entry cannot be read."""
    room_with(hub, "damaged", history="all")

    def broken(self: Room, *_: object) -> Any:
        raise WrongLog(2, "it is not JSON")

    monkeypatch.setattr(Room, "lines", broken)
    assert "The log is broken. Entry 2: it is not JSON." in words(hub, "/rooms/damaged")
    monkeypatch.setattr(Room, "state", broken)
    assert "Entry 2: it is not JSON." in words(hub, "/rooms")


def test_a_local_reader_creates_and_forks_rooms_with_the_forms(hub: Hub) -> None:
    """ENS-5, N7, ROOMS 5: personal mode; the fork names its predecessor."""
    made = send(hub, do="create", name="mine", join="public", history="all")
    assert (made.status_code, made.headers["Location"]) == (303, "/rooms/mine")
    assert rooms_of(hub).open("mine").state_now["policy"]["history"] == "all"
    assert send(hub, do="create", name="mine").status_code == 409
    assert send(hub, do="create", name="no room").status_code == 400
    assert send(hub, do="fork", name="other", room="mine", seq="1").headers["Location"] == "/rooms/other"
    assert "This room is a fork. It goes on from entry 1" in words(hub, "/rooms/other")
    assert send(hub, do="fork", name="third", room="mine", seq="7").status_code == 400
    assert send(hub, do="melt", name="third").status_code == 400
    head = rooms_of(hub).open("other").head
    assert f'value="{head}"' in hub.client.get("/rooms/other").text
    assert send(hub, do="remove", room="other", head="bafkreia").status_code == 412
    assert send(hub, do="remove", room="other", head=head).headers["Location"] == "/rooms"
    assert hub.client.get("/rooms/other").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "http://friend.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_of_another_site_changes_nothing(hub: Hub, headers: dict[str, str]) -> None:
    """T14.3."""
    answer = hub.client.post("/rooms", data={"do": "create", "name": "foreign"}, headers=headers)
    assert answer.status_code == 403
    assert "foreign" not in {one.name for one in rooms_of(hub).all()}


def test_the_operator_needs_the_value_of_the_form(hub: Hub) -> None:
    """T14.3: a session of the operator proves besides that the form is one of the hub's own pages."""
    browser = Hub.__new__(Hub)
    browser.__dict__ |= hub.__dict__ | {"client": hub.app.test_client()}
    browser.log_in()
    assert send(browser, do="create", name="proven").status_code == 403
    html = read(browser, "/rooms")
    value = html.split('name="csrf" value="')[1].split('"')[0]
    assert send(browser, do="create", name="proven", csrf=value).status_code == 303


def test_in_open_mode_only_the_operator_creates_rooms(tmp_path_factory: pytest.TempPathFactory) -> None:
    """ACCESS 1."""
    hub = Hub(tmp_path_factory.mktemp("open"), {}, access="open")
    assert send(hub, do="create", name="mine").status_code == 401
    assert "Only the operator" in words(hub, "/rooms")
    hub.close()


def test_the_stream_says_the_seq_of_the_newest_entry(hub: Hub) -> None:
    """ROOMS 3: the page is live, and its reader is not a member."""
    room = room_with(hub, "told")
    answer = hub.client.get("/rooms/told/changes", buffered=False)
    frames = iter_bytes(answer)
    assert next(frames) == b"event: entries\ndata: 1\n\n"
    Person(room, "bo")
    assert next(frame for frame in frames if frame.startswith(b"event")) == b"event: entries\ndata: 2\n\n"
    answer.close()
    assert room.seq == 2


def hostile_room(hub: Hub, name: str, text: str) -> Room:
    """A room whose member wrote a text into everything that it can write."""
    room = room_with(hub, name, history="all")
    tool = {"name": "read", "title": text, "description": text, "inputSchema": {"type": "object"}}
    tool["inputSchema"] = {"type": "object", "properties": {text: {"type": "string", "description": text}}}
    caps = ["tool.call", "tool.host", "mcp.server:fs", *([text] if text.isprintable() else [])]
    person = Person(room, "bo", caps=caps, agent={"name": text, "version": text})
    person.announces("fs", tool)
    person.says("chat.msg", {"text": text})
    person.says("tool.result", {"callId": person.calls("fs", "read", {text: text}), "ok": False, "error": text})
    return room


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_nothing_that_a_member_wrote_runs_in_a_page(hub: Hub, index: int) -> None:
    """T14.2, G28, S24: names, texts, arguments, errors, capabilities, descriptors; hidden characters are shown."""
    text = HOSTILE[index]
    room = hostile_room(hub, f"hostile-{index}", text)
    for path in (f"/rooms/{room.name}", f"/rooms/{room.name}?verify=yes"):
        page = Reader(html := read(hub, path))
        assert page.faults == [], path
        assert find_hidden_character(page.text) is None, path
        assert is_shown(text, page.text)
        assert "<" not in text or text not in html


def test_nothing_that_members_wrote_runs_in_the_list_of_rooms(tmp_path_factory: pytest.TempPathFactory) -> None:
    """T14.2, G28, S24: the list has the names and the servers of all members."""
    hub = Hub(tmp_path_factory.mktemp("listed"), {}, room_rate=100_000.0)
    for index, text in enumerate(HOSTILE):
        hostile_room(hub, f"hostile-{index}", text)
    html = "".join(read(hub, path) for path in ("/rooms", "/rooms?page=2"))
    page = Reader(html)
    assert page.faults == []
    assert find_hidden_character(page.text) is None
    assert [index for index in range(len(HOSTILE)) if f"hostile-{index}" not in page.text] == []
    assert [text for text in HOSTILE if "<" in text and text in html] == []
    hub.close()
