"""Prompts: arguments in, messages out."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.catalogue.reading.prompts import prompt_events, prompt_messages
from patchbay.errors import InvalidParams, ToolFailed
from patchbay.views.fold import Fold

CODE = """
def text(who: str) -> str:
    return "Hello " + who

def several() -> list:
    return ["one", {"role": "assistant", "content": "two"}]

def whole() -> dict:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": "three"}}]}

def wrong() -> dict:
    return {"messages": [5]}

def fails() -> str:
    raise ValueError("no luck")
"""


@pytest.fixture
def hub(bench: Any) -> Any:
    prompts = {
        "plain": {"messages": [{"content": "Say something"}]},
        "greet": {
            "description": "Greets",
            "arguments": [{"name": "who", "required": True}, {"name": "how"}],
            "messages": [
                {"content": "Greet {{who}} {{ how }}, not {{other}}"},
                {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "a://{{who}}", "text": ""}}},
            ],
        },
        "text": {"arguments": [{"name": "who"}], "function": "text"},
    } | {name: {"function": name} for name in ("several", "whole", "wrong", "fails")}
    bench.plug("words", CODE, config={"prompts": prompts})
    return bench.open()


def get(bench: Any, hub: Any, name: str, **arguments: Any) -> dict[str, Any]:
    server, found = hub.find("words"), Fold()
    prompt = server.prompts[name]
    for event in prompt_events(server, prompt, bench.call(hub, "words", arguments)):
        found.add(event)
    return {"messages": prompt_messages(found, prompt)}


def text_message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def test_a_prompt_without_arguments_is_as_written(bench: Any, hub: Any) -> None:
    """T7.2"""
    assert get(bench, hub, "plain") == {"messages": [text_message("Say something")]}


def test_arguments_are_filled_in_everywhere_once(bench: Any, hub: Any) -> None:
    """T7.3, V-C12"""
    got = get(bench, hub, "greet", who="{{how}}", how="well")
    assert got["messages"] == [
        text_message("Greet {{how}} well, not {{other}}"),
        {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "a://{{how}}", "text": ""}}},
    ]


def test_an_optional_argument_that_is_not_given_is_empty(bench: Any, hub: Any) -> None:
    """T7.3"""
    assert get(bench, hub, "greet", who="Ada")["messages"][0] == text_message("Greet Ada , not {{other}}")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "who is missing"),
        ({"who": 5}, "who must be a string"),
        ({"who": None}, "who must be a string"),
        ({"who": "Ada", "colour": "red"}, "colour is not one of its arguments"),
    ],
)
def test_wrong_arguments_are_named(bench: Any, hub: Any, arguments: Any, expected: str) -> None:
    """T7.5, V-C12"""
    with pytest.raises(InvalidParams, match=expected):
        get(bench, hub, "greet", **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "messages"),
    [
        ("text", {"who": "Ada"}, [text_message("Hello Ada")]),
        ("several", {}, [text_message("one"), text_message("two", "assistant")]),
        ("whole", {}, [text_message("three")]),
    ],
)
def test_a_function_gives_the_messages(bench: Any, hub: Any, name: str, arguments: Any, messages: Any) -> None:
    assert get(bench, hub, name, **arguments)["messages"] == messages


@pytest.mark.parametrize(("name", "expected"), [("wrong", "it returned 5"), ("fails", "ValueError: no luck")])
def test_a_function_without_messages_is_reported(bench: Any, hub: Any, name: str, expected: str) -> None:
    """T7.4"""
    with pytest.raises(ToolFailed, match=expected):
        get(bench, hub, name)
