"""A hub whose tools ask questions inside scripts, and how the tests answer them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hubs import Answer, Hub, modern_request
from tests.scripting.closing import FILES, FORMS

DESK = '''"""A desk that asks before it books."""

import time
from pathlib import Path

from patchbay.events import Question

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SEAT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Who", "minLength": 2},
        "row": {"type": "integer", "minimum": 1, "maximum": 9},
        "window": {"type": "boolean", "default": True},
        "meals": {"type": "array", "items": {"type": "string", "enum": ["soup", "cake"]}},
    },
    "required": ["name", "row"],
}


def note(folder: str, word: str) -> str:
    """Write a word down."""
    with (Path(folder) / "noted").open("a") as file:
        file.write(f"{word} ")
    return word


def book(context, folder: str, place: str) -> str:
    """Book a place for the person whose name the user says."""
    answer = context.elicit(f"Who takes {place}?", FORM)
    if answer["action"] != "accept":
        return f"{place} is free: {answer['action']}"
    with (Path(folder) / "booked").open("a") as file:
        file.write(f"{place}:{answer['content']['name']} ")
    return f"{place} for {answer['content']['name']}"


def reserve(context, folder: str, place: str) -> str:
    """Book a place, which needs an approval."""
    return book(context, folder, place)


def twice(context) -> str:
    """Ask two questions, one after the other."""
    first = context.elicit("First name?", FORM)["content"]["name"]
    return first + " " + context.elicit(f"Last name of {first}?", FORM)["content"]["name"]


def delete(context, folder: str) -> str:
    """Ask three times under one key, the last two times the same."""
    said = [
        context.elicit(message, FORM, key="confirm")["content"]["name"]
        for message in ("Delete it?", "Its backups too?", "Its backups too?")
    ]
    (Path(folder) / "deleted").write_text("deleted")
    return " ".join(said)


def seat(context, folder: str) -> str:
    """Ask with fields of several types."""
    answer = context.elicit("Which seat?", SEAT)
    with (Path(folder) / "seats").open("a") as file:
        file.write(f"{answer['action']} ")
    return str(sorted(answer.get("content", {}).items()))


def visit(context) -> str:
    """Ask to open a URL."""
    params = {"mode": "url", "elicitationId": "1", "url": "https://pay.example/1", "message": "Pay there."}
    return context.ask({"pay": Question("elicitation/create", params)})["pay"]["action"]


def endless(context) -> str:
    """Ask again after each answer."""
    while True:
        context.elicit("Again?", FORM)


def sample(context) -> str:
    """Ask the model of the caller."""
    return str(context.sample("Hello"))


def wait(folder: str) -> str:
    """Wait for a file, and write that it came."""
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return "came"
'''
DESK_FILES = FILES | {
    "desk.py": DESK,
    "desk.mcp.json": json.dumps(
        {
            "auto_discover": True,
            "isolation": "inline",
            "tools": {"reserve": {"approve": True}},
            "listing": {"scripts": "also"},
        }
    ),
    "both.json": json.dumps({"kind": "toolset", "include": ["desk.*", "issues.*"], "listing": {"scripts": "also"}}),
}

BOOK = """import desk

await desk.note(folder=folder, word="before")
booked = await desk.book(folder=folder, place="A1")
await desk.note(folder=folder, word="after")
booked
"""


def asking_hub(folder: Path, **settings: Any) -> Hub:
    """A hub with the desk and the issues, whose calls do not wait for a decision."""
    hub = Hub(folder, DESK_FILES, **settings)
    hub.catalogue.hub.gate.wait_seconds = 0.0
    return hub


def ask(
    hub: Hub,
    folder: Path,
    code: str = BOOK,
    capabilities: Mapping[str, Any] | None = FORMS,
    headers: Mapping[str, str] | None = None,
    server: str = "desk",
    **params: Any,
) -> Answer:
    """The answer to a script that gets the folder."""
    wanted = {"name": "run_script", "arguments": {"code": code, "inputs": {"folder": str(folder)}}}
    return hub.send(server, *modern_request("tools/call", wanted | params, capabilities, headers=headers))


def questions(asked: Answer) -> dict[str, str]:
    """The messages of the questions of an InputRequiredResult, by their keys."""
    assert asked.result["resultType"] == "input_required", asked.result
    return {key: one["params"]["message"] for key, one in asked.result["inputRequests"].items()}


def answered(asked: Answer, *names: str) -> dict[str, Any]:
    """The members of a retry that answers the questions in order, each with a name."""
    keys = questions(asked)
    given = {key: {"action": "accept", "content": {"name": name}} for key, name in zip(keys, names, strict=True)}
    return {"inputResponses": given, "requestState": asked.result["requestState"]}
