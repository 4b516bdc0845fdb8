"""prompts/list, prompts/get and completion/complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub


def prompt_text(hub: Hub, name: str, arguments: Any = None) -> str:
    params = {"name": name} | ({"arguments": arguments} if arguments is not None else {})
    (message,) = hub.legacy("zoo", "prompts/get", params).result["messages"]
    return str(message["content"]["text"])


def test_configured_prompts_are_listed(zoo: Hub) -> None:
    """T7.1, VWR-4, VWR-9."""
    found = {each["name"]: each for each in zoo.legacy("zoo", "prompts/list").result["prompts"]}
    assert set(found) == {"plain", "about"}
    assert found["about"]["arguments"][0] == {"name": "topic", "required": True}
    assert "messages" not in found["plain"]


def test_a_prompt_without_arguments_gives_its_messages(zoo: Hub) -> None:
    """T7.2."""
    assert prompt_text(zoo, "plain") == "Say hello."


def test_arguments_fill_the_template(zoo: Hub) -> None:
    """T7.3, V-C12, VWR-9: once, so that a value is never taken for a template."""
    assert prompt_text(zoo, "about", {"topic": "{{tone}}", "tone": "gently"}) == "Tell me about {{tone}} (gently)."


def test_an_absent_optional_argument_is_empty(zoo: Hub) -> None:
    assert prompt_text(zoo, "about", {"topic": "apes"}) == "Tell me about apes ()."


def test_a_missing_prompt_is_an_error(zoo: Hub) -> None:
    """T7.4."""
    answer = zoo.legacy("zoo", "prompts/get", {"name": "abot"})
    assert answer.error["code"] == -32602
    assert "about" in answer.error["message"]


@pytest.mark.parametrize("arguments", [{"topic": 5}, {"topic": None}, {}, {"topic": "x", "colour": "red"}])
def test_wrong_arguments_are_a_validation_error(zoo: Hub, arguments: dict[str, Any]) -> None:
    """T7.5: prompt arguments are strings, required ones have to be there, others are unknown."""
    answer = zoo.legacy("zoo", "prompts/get", {"name": "about", "arguments": arguments})
    assert answer.error["code"] == -32602


def test_an_argument_is_completed_from_the_configured_values(zoo: Hub) -> None:
    def values(typed: str) -> dict[str, Any]:
        params = {"ref": {"type": "ref/prompt", "name": "about"}, "argument": {"name": "topic", "value": typed}}
        return dict(zoo.legacy("zoo", "completion/complete", params).result["completion"])

    assert values("A") == {"values": ["apes", "ants"], "total": 2, "hasMore": False}
    assert values("zz")["values"] == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {"type": "ref/prompt", "name": "nothing"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/tool", "name": "about"}, "argument": {"name": "topic", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "about"}, "argument": {"name": "nothing", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "about"}, "argument": {"name": "topic", "value": 3}},
        {"ref": {"type": "ref/prompt", "name": "about"}},
    ],
)
def test_a_completion_of_nothing_is_an_error(zoo: Hub, params: dict[str, Any]) -> None:
    assert zoo.legacy("zoo", "completion/complete", params).error["code"] == -32602


def test_content_that_a_revision_does_not_have_becomes_text(tmp_path: Path) -> None:
    """SPEC-DIGEST 1.5: sound from 2025-03-26 on, links from 2025-06-18 on."""
    sound = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "x://y", "name": "y"}
    prompts = {"both": {"messages": [{"role": "user", "content": each} for each in (sound, link)]}}
    hub = Hub(tmp_path, {"old.py": "", "old.mcp.json": json.dumps({"prompts": prompts})})
    try:
        told = {
            version: [
                one["content"]["type"]
                for one in hub.legacy("old", "prompts/get", {"name": "both"}, version=version).result["messages"]
            ]
            for version in ("2024-11-05", "2025-03-26", "2025-06-18")
        }
    finally:
        hub.close()
    assert told == {
        "2024-11-05": ["text", "text"],
        "2025-03-26": ["audio", "text"],
        "2025-06-18": ["audio", "resource_link"],
    }
