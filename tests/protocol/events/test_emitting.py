"""Events that a Python definition emits, as clients of 2026-07-28 list, poll and stream them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.boot.changes import change_names
from tests.hubs import Hub, modern_request

SOURCE = '''
"""Incidents."""
from typing import Literal, TypedDict


class Incident(TypedDict):
    """An incident was opened."""

    title: str
    severity: Literal["P1", "P2"]
    numbers: list[int]


EVENTS = {"incident.opened": Incident, "empty": str}


def report(title: str, context, severity: str = "P1", id: str = "") -> str:
    return context.emit("incident.opened", {"title": title, "severity": severity, "numbers": [1]}, id)


def wrong(context) -> str:
    return context.emit("incident.opened", {"title": 7})


def unknown(context) -> str:
    return context.emit("incident.closed", {"title": "x"})
'''
EVENT = "incident.opened"
TAG = "io.modelcontextprotocol/subscriptionId"
EXTENSION = "io.modelcontextprotocol/events"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    one = Hub(tmp_path, {"desk.py": SOURCE})
    yield one
    one.close()


def ask(hub: Hub, method: str, params: dict[str, Any] | None = None, server: str = "desk") -> Any:
    """Return the result of a request, or its error."""
    last = hub.modern(server, method, params or {}).last
    return last.get("result", last.get("error"))


def poll(hub: Hub, cursor: str | None, server: str = "desk", name: str = EVENT, **more: Any) -> Any:
    return ask(hub, "events/poll", {"name": name, "cursor": cursor, **more}, server)


def report(hub: Hub, **arguments: Any) -> str:
    """Emit an event; return its id."""
    answer = hub.call("desk", "report", arguments)
    assert not answer.result["isError"], answer.text
    return answer.text


def messages_of(stream: Any) -> Generator[Any, None, None]:
    for frame in stream:
        for line in frame.decode().split("\n"):
            if line.startswith("data: ") and line[6:]:
                yield orjson.loads(line[6:])


def stream_of(
    hub: Hub, server: str = "desk", name: str = EVENT, id: Any = 5, **more: Any
) -> Generator[Any, None, None]:
    return messages_of(hub.stream(server, *modern_request("events/stream", {"name": name, **more}, id=id)))


def test_a_definition_lists_its_event_types_with_schemas_and_delivery_modes(hub: Hub) -> None:
    """37.1"""
    listed = ask(hub, "events/list")
    (event,) = listed["events"]
    assert event["name"] == EVENT and event["description"] == "An incident was opened."
    assert event["delivery"] == ["poll", "push", "webhook"]
    assert set(event["payloadSchema"]["properties"]) == {"title", "severity", "numbers"}
    assert set(event["inputSchema"]["properties"]) == {"title", "severity"}
    assert listed["resultType"] == "complete"
    capabilities = ask(hub, "server/discover")["capabilities"]
    assert capabilities["extensions"][EXTENSION] == {"listChanged": True}


def test_a_type_without_fields_is_a_problem_on_the_page_of_the_server(hub: Hub) -> None:
    problems = [one for one in hub.catalogue.find("desk").problems if one.where == "empty"]
    assert "class with fields" in problems[0].reason


def test_polling_from_now_gives_later_events_once_and_in_order(hub: Hub) -> None:
    """37.1"""
    assert report(hub, title="before")
    first = poll(hub, None)
    assert first["events"] == [] and not first["truncated"]
    ids = [report(hub, title=f"number {n}") for n in range(5)]
    found = poll(hub, first["cursor"], maxEvents=3)
    assert [one["data"]["title"] for one in found["events"]] == ["number 0", "number 1", "number 2"]
    assert found["hasMore"]
    rest = poll(hub, found["cursor"])
    assert [one["eventId"] for one in (*found["events"], *rest["events"])] == ids
    assert not rest["hasMore"] and poll(hub, rest["cursor"])["events"] == []


def test_arguments_filter_by_the_fields_of_the_payload(hub: Hub) -> None:
    begin = poll(hub, None)["cursor"]
    for severity in ("P1", "P2", "P1"):
        report(hub, title=severity, severity=severity)
    found = poll(hub, begin, arguments={"severity": "P2"})
    assert [one["data"]["severity"] for one in found["events"]] == ["P2"]
    refused = poll(hub, begin, arguments={"colour": "red"})
    assert refused["code"] == -32602 and "colour" in refused["message"]


def test_data_that_does_not_fit_its_type_is_refused_and_not_stored(hub: Hub) -> None:
    begin = poll(hub, None)["cursor"]
    wrong, unknown = hub.call("desk", "wrong"), hub.call("desk", "unknown")
    assert wrong.result["isError"] and "does not fit its type" in wrong.text
    assert unknown.result["isError"] and "incident.opened" in unknown.text
    assert poll(hub, begin)["events"] == []


def test_a_stream_confirms_itself_and_delivers_events_with_their_cursors(hub: Hub) -> None:
    """37.1"""
    stream = stream_of(hub, id="one")
    active = next(stream)
    assert active["method"] == "notifications/events/active"
    assert active["params"]["_meta"][TAG] == "one" and active["params"]["truncated"] is False
    id = report(hub, title="seen", id="gh-1")
    event = next(stream)["params"]
    assert id == event["eventId"] == "gh-1" and event["data"]["title"] == "seen" and event["_meta"][TAG] == "one"
    stream.close()
    report(hub, title="missed")
    again = stream_of(hub, cursor=event["cursor"])
    assert next(again)["method"] == "notifications/events/active"
    assert next(again)["params"]["data"]["title"] == "missed"
    again.close()


def test_a_stream_ends_when_the_type_of_its_events_changes(hub: Hub) -> None:
    stream = stream_of(hub)
    next(stream)
    (hub.servers / "desk.py").write_text(SOURCE.replace("title: str\n", "title: int\n"))
    ended = next(stream)
    assert ended["method"] == "notifications/events/terminated"
    assert ended["params"]["error"]["code"] == -32026
    assert ended["params"]["error"]["data"] == {"feature": "payloadSchema", "reason": "schema_changed"}
    assert next(stream)["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("events/poll", {"name": "nothing"}, -32023),
        ("events/stream", {"name": "nothing"}, -32023),
        ("events/poll", {}, -32602),
        ("events/poll", {"name": EVENT, "cursor": "x"}, -32602),
        ("events/poll", {"name": EVENT, "cursor": 7}, -32602),
        ("events/poll", {"name": EVENT, "maxEvents": 0}, -32602),
        ("events/poll", {"name": EVENT, "maxAgeMs": -1}, -32602),
        ("events/poll", {"name": EVENT, "arguments": [1]}, -32602),
    ],
)
def test_bad_requests_are_refused_with_their_code(hub: Hub, method: str, params: dict[str, Any], code: int) -> None:
    assert ask(hub, method, params)["code"] == code


def test_the_joined_endpoint_has_the_event_under_the_name_of_its_server(hub: Hub) -> None:
    """37.1"""
    name = "desk__incident.opened"
    assert name in [one["name"] for one in ask(hub, "events/list", {}, "")["events"]]
    begin = poll(hub, None, "", name)["cursor"]
    stream = stream_of(hub, "", name)
    next(stream)
    report(hub, title="joined")
    assert poll(hub, begin, "", name)["events"][0]["name"] == name
    assert next(stream)["params"]["name"] == name
    stream.close()


def test_an_event_older_than_the_greatest_age_is_skipped_and_said_to_be(hub: Hub) -> None:
    begin = poll(hub, None)["cursor"]
    report(hub, title="old")
    found = poll(hub, begin, maxAgeMs=0)
    assert found["events"] == [] and found["truncated"] is True


def test_a_server_without_event_types_has_no_methods_of_the_extension(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"plain.py": "def one() -> str:\n    return '1'\n"})
    try:
        assert ask(hub, "events/list", {}, "plain")["code"] == -32601
        assert EXTENSION not in ask(hub, "server/discover", {}, "plain")["capabilities"].get("extensions", {})
    finally:
        hub.close()


def test_changes_of_a_variable_are_events_of_a_configured_server(tmp_path: Path) -> None:
    """37.1"""
    fields = {"kind": "static", "events": {"colour.changed": {"source": {"variable": "colour"}}}}
    hub = Hub(tmp_path, {"watch.json": orjson.dumps(fields).decode()})
    try:
        begin = poll(hub, None, "watch", "colour.changed")["cursor"]
        stream = stream_of(hub, "watch", "colour.changed")
        next(stream)
        store = hub.catalogue.store
        change_names(store, {"variables/colour": store.blobs.put(b"red")}, "test", "a colour")
        event = next(stream)["params"]
        assert event["data"]["name"] == "colour" and event["data"]["removed"] is False
        found = poll(hub, begin, "watch", "colour.changed")["events"]
        assert [one["eventId"] for one in found] == [event["eventId"]]
        stream.close()
    finally:
        hub.close()
