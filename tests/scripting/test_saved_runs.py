"""Saved scripts whose calls wait for an approval: their callers decide, and they go on as other scripts do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Answer, Hub, modern_request
from tests.kinds.toolset.sets import write
from tests.scripting.closing import FILES, FORMS, answers_to, decide, ended, waiting, words
from tests.waiting import until

TIDY = '''import desk


async def tidy(folder: str) -> str:
    """Close the first issue."""
    return await desk.close(folder=folder, number=1)
'''


def desk(scripts: str, **tools: object) -> str:
    """A toolset with the script TIDY, or with other tools."""
    shaped = tools or {"tidy": {"script": TIDY}}
    return json.dumps({"kind": "toolset", "include": ["issues.close"], "scripts": scripts, "tools": shaped})


@pytest.fixture(params=["off", "also"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path / "hub", FILES | {"desk.json": desk(request.param)})
    found.catalogue.hub.gate.wait_seconds = 0.0
    yield found
    found.close()


def tidy(hub: Hub, folder: Path, forms: object = None, **params: object) -> Answer:
    """The answer to a call of the saved script."""
    wanted = {"name": "tidy", "arguments": {"folder": str(folder)}} | params
    return hub.send("desk", *modern_request("tools/call", wanted, FORMS if forms else None))


def test_a_user_who_accepts_lets_a_saved_script_go_on(hub: Hub, tmp_path: Path) -> None:
    asked = tidy(hub, tmp_path, FORMS)
    answer = tidy(hub, tmp_path, FORMS, **answers_to(asked))
    assert answer.text == "closed 1" and words(tmp_path) == ["1"]


def test_a_saved_script_goes_on_after_the_page_has_a_decision(hub: Hub, tmp_path: Path) -> None:
    said = tidy(hub, tmp_path)
    assert "call tidy with the same arguments again to get its value" in said.text
    decide(hub, waiting(hub)[0]["question"])
    until(lambda: words(tmp_path) == ["1"], "the call")
    answer = tidy(hub, tmp_path)
    assert answer.text == "closed 1" and words(tmp_path) == ["1"]


def test_a_saved_script_that_is_no_longer_there_does_not_go_on(hub: Hub, tmp_path: Path) -> None:
    tidy(hub, tmp_path)
    asked = waiting(hub)[0]
    write(hub, "desk.json", desk("also", other={"script": TIDY.replace("tidy", "other")}))
    decide(hub, asked["question"])
    assert ended(hub, asked["run"]).failure == "desk has no tool tidy any more, which began this script"
    assert words(tmp_path) == []


def test_a_saved_script_that_waits_goes_on_after_a_restart_of_the_hub(tmp_path: Path) -> None:
    """55.3: with the version of the toolset that is there then, as its caller."""
    files = FILES | {"desk.json": desk("off")}
    first = Hub(tmp_path / "hub", files, store="sqlite")
    first.catalogue.hub.gate.wait_seconds = 0.0
    assert "call tidy with the same arguments again" in tidy(first, tmp_path).text
    asked = waiting(first)[0]
    first.close()
    second = Hub(tmp_path / "hub", files, store="sqlite")
    second.catalogue.hub.gate.wait_seconds = 0.0
    try:
        decide(second, asked["question"])
        assert ended(second, asked["run"]).value == "closed 1"
        assert tidy(second, tmp_path).text == "closed 1" and words(tmp_path) == ["1"]
    finally:
        second.close()


def test_the_caller_of_a_shaped_script_that_waited_gets_its_value_in_the_shape_alone(tmp_path: Path) -> None:
    """The `result` of a tool may hide parts of a value, and what the script prints, from those who may call it."""
    text = TIDY.replace(
        "return await desk.close(folder=folder, number=1)",
        """print("hidden")
    return {"total": 1, "rows": [await desk.close(folder=folder, number=1)]}""",
    ).replace("-> str", "-> dict[str, object]")
    shaped = {"script": text, "result": "{total}"}
    hub = team_hub(tmp_path / "hub", FILES | {"desk.json": desk("off", tidy=shaped)})
    hub.catalogue.hub.gate.wait_seconds = 0.0
    try:
        set_grants(hub, {"grants": [{"to": ["key:ann"], "may": ["call", "see"], "on": ["desk"]}]})
        ann = new_key(hub, "ann")
        wanted = {"name": "tidy", "arguments": {"folder": str(tmp_path)}}

        operator = {"Authorization": f"Bearer {hub.token}"}

        def call(headers: dict[str, str]) -> Answer:
            return hub.modern("desk", "tools/call", wanted, headers=headers)

        def run_of(headers: dict[str, str]) -> str:
            call(headers)
            (asked,) = waiting(hub)
            decide(hub, asked["question"])
            ended(hub, asked["run"])
            return str(asked["run"])

        def outcome(run: str, headers: dict[str, str]) -> Any:
            shown: Any = hub.client.get(f"/activity/runs/{run}.json", headers=headers).json
            return shown["outcome"]

        run = run_of(ann)
        told = outcome(run, ann)
        assert told["note"] == "Call tidy with the same arguments again to get its value."
        assert told["failure"] == "" and "hidden" not in str(told) and "closed 1" not in str(told)
        page = hub.client.get(f"/activity/runs/{run}", headers={**ann, "Accept": "text/html"}).text
        assert told["note"] in page and "closed 1" not in page
        assert call(ann).result["structuredContent"] == {"total": 1}
        assert outcome(run, ann)["note"].endswith("is no longer kept for its caller.")
        whole = outcome(run_of(operator), operator)
        assert (whole["value"], whole["printed"]) == ({"total": 1, "rows": ["closed 1"]}, "hidden\n")
    finally:
        hub.close()
