"""The exact call that people decide about is the one that a script makes then, and a wrong call leaves a record."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activity.records import Filter, Record
from patchbay.protocol.script_replays import replay_run
from tests.hubs import Answer, Hub, modern_request
from tests.scripting.closing import FORMS, answers_to, decide, ended, waiting
from tests.scripting.hubs import value
from tests.waiting import until

LINKS = '''"""Links and numbers."""

from typing import Annotated

from pydantic import Field


def put(data: bytes) -> str:
    """Put a content."""
    return f"got {len(data)}"


def small(number: Annotated[int, Field(ge=1)]) -> int:
    """Take a positive number."""
    return number
'''
SETTINGS = json.dumps(
    {
        "auto_discover": True,
        "isolation": "inline",
        "tools": {"put": {"approve": True}},
        "listing": {"scripts": "also"},
    }
)
CONTENT = b"hello there"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = {"links.py": LINKS, "links.mcp.json": SETTINGS}
    found = Hub(tmp_path / "hub", files, activity_contents="keep")
    found.catalogue.hub.gate.wait_seconds = 0.0
    yield found
    found.close()


def run(hub: Hub, code: str, forms: object = None, params: dict[str, object] | None = None, **inputs: object) -> Answer:
    """The answer to a script of the operator."""
    wanted = {"name": "run_script", "arguments": {"code": code, "inputs": inputs}} | (params or {})
    headers = {"Authorization": f"Bearer {hub.token}"}
    return hub.send("links", *modern_request("tools/call", wanted, FORMS if forms else None, headers=headers))


def upload(hub: Hub) -> str:
    """Upload the content; return its link."""
    answer = hub.client.post("/blobs", data=CONTENT, headers={"Authorization": f"Bearer {hub.token}"})
    return str(answer.json["uri"])  # type: ignore[index]


PUT = "import links\nawait links.put(data=link)"


def test_an_approved_call_with_a_link_gets_the_content_that_people_saw(hub: Hub) -> None:
    link = upload(hub)
    run(hub, PUT, link=link)
    (asked,) = waiting(hub)
    assert asked["arguments"] == json.dumps({"data": b64encode(CONTENT).decode()}, separators=(",", ":"))
    decide(hub, asked["question"])
    assert ended(hub, asked["run"]).value == "got 11"


def test_a_client_is_asked_about_the_content_of_a_link_and_not_about_its_key(hub: Hub) -> None:
    link = upload(hub)
    asked = run(hub, PUT, FORMS, link=link)
    shown = json.dumps(asked.result["inputRequests"])
    assert b64encode(CONTENT).decode() in shown and link not in shown
    assert value(run(hub, PUT, FORMS, answers_to(asked), link=link)) == "got 11"


def test_a_call_with_wrong_arguments_has_a_record_and_a_replay_finds_no_difference(hub: Hub) -> None:
    code = "import links\ntry:\n    x = await links.small(number=0)\nexcept RuntimeError as problem:\n    x = 0\nx"
    answer = run(hub, code)
    assert value(answer) == 0
    id = answer.result["structuredContent"]["run"]
    until(lambda: len(hub.activity.recent(Filter(run=id), limit=9).records) == 2, "the records of the run")
    replayed = replay_run(hub.app.parts.dispatcher.services, id)
    assert replayed.differences == () and not replayed.is_partial


def test_a_replay_of_a_run_with_an_approved_link_finds_no_difference(hub: Hub) -> None:
    """The record of the call has its arguments as the script wrote them, as that of a call without approval has."""
    link = upload(hub)
    run(hub, PUT, link=link)
    (asked,) = waiting(hub)
    decide(hub, asked["question"])
    assert ended(hub, asked["run"]).value == "got 11"

    def find_records() -> list[Record]:
        return hub.activity.recent(Filter(run=asked["run"]), limit=9).records

    until(lambda: {"put", "resumed"} <= {one.name for one in find_records()} | {one.way for one in find_records()})
    (put,) = (one for one in find_records() if one.name == "put")
    assert put.arguments == {"data": link}
    replayed = replay_run(hub.app.parts.dispatcher.services, asked["run"])
    assert replayed.differences == () and not replayed.is_partial


def test_a_run_that_waits_again_has_no_failure_in_its_records(hub: Hub) -> None:
    run(hub, f"{PUT}\nawait links.put(data=second)", link="YQ==", second="YmI=")
    (first,) = waiting(hub)
    decide(hub, first["question"])
    until(lambda: [one for one in waiting(hub) if one["question"] != first["question"]], "the second question")

    def find_resumed() -> list[str]:
        found = hub.activity.recent(Filter(run=first["run"]), limit=9).records
        return [one.outcome for one in found if one.way == "resumed"]

    until(find_resumed, "the record of the run that went on")
    assert find_resumed() == ["ok"]
