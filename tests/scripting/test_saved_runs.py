"""Saved scripts whose calls wait for an approval: their callers decide, and they go on as other scripts do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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
