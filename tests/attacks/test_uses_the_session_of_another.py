"""A member of a shared hub has the id of a session, or of an event, of another member, and uses it at every route.

Sources: issue 16; ACCESS section 2; MCP specification, basic/security_best_practices (session hijacking).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.access.team import new_key, team_hub
from tests.hubs import BOTH, Hub

Headers = dict[str, str]

STREAM = {"Accept": "text/event-stream", "Host": "localhost"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
START = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("sessions"))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Headers:
    return new_key(hub, "ann")


@pytest.fixture(scope="module")
def ben(hub: Hub) -> Headers:
    return new_key(hub, "ben")


def in_session(hub: Hub, who: Headers) -> Headers:
    """The headers of requests in a new session of a member."""
    opened = hub.send("notes", START, who)
    return {"Mcp-Session-Id": str(opened.headers["Mcp-Session-Id"]), "MCP-Protocol-Version": "2025-11-25"}


def test_the_session_of_another_answers_as_an_ended_one(hub: Hub, ann: Headers, ben: Headers) -> None:
    session = in_session(hub, ben)
    ended = in_session(hub, ann)
    assert hub.client.delete("/mcp/notes", headers=ann | ended | {"Host": "localhost"}).status_code == 204
    for method in ("POST", "GET", "DELETE"):
        answers = []
        for named in (session, ended):
            headers = ann | named | {"Accept": BOTH if method == "POST" else STREAM["Accept"], "Host": "localhost"}
            body: Any = {"json": PING} if method == "POST" else {}
            answer = hub.client.open("/mcp/notes", method=method, headers=headers, **body)
            answers.append((answer.status_code, answer.get_data()))
        assert answers[0] == answers[1], method
        assert answers[0][0] == 404
    assert hub.send("notes", PING, ben | session).status == 200, "the session of its owner goes on"


def test_the_event_of_another_is_not_replayed(hub: Hub, ann: Headers, ben: Headers) -> None:
    of_ben = in_session(hub, ben)
    params = {"name": "search", "arguments": {"text": "private"}, "_meta": {"progressToken": "t"}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    stream = b"".join(hub.stream("notes", message, ben | of_ben))
    ids = re.findall(rb"^id: (\S+)", stream, re.MULTILINE)
    assert ids and b"found private" in stream
    last = {"Last-Event-ID": ids[0].decode()}
    answer = hub.client.get("/mcp/notes", headers=ann | in_session(hub, ann) | STREAM | last)
    assert answer.status_code == 400 and b"names no event of this session" in answer.get_data()
    own = hub.client.get("/mcp/notes", headers=ben | of_ben | STREAM | last)
    assert own.status_code == 200 and b"found private" in own.get_data()


def test_the_pair_of_routes_of_another_takes_no_message(hub: Hub, ann: Headers, ben: Headers) -> None:
    opened = hub.client.get("/mcp/notes/sse", headers=ben | STREAM, buffered=False)
    frames: Any = iter(opened.response)
    address = next(frames).split(b"data: ")[1].split()[0].decode()
    body = orjson.dumps(PING)
    headers = {"Content-Type": "application/json", "Host": "localhost"}
    assert hub.client.post(address, data=body, headers=ann | headers).status_code == 404
    assert hub.client.post(address, data=orjson.dumps(START), headers=ben | headers).status_code == 202
    opened.close()
