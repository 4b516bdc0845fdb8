"""Cones over an endpoint that speaks the Anthropic Messages API. Issue 12 part 7."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.content.anthropic_endpoint import KEY, MessagesEndpoint, messages_endpoint
from tests.content.test_cone import ConeHub, failed


@pytest.fixture
def endpoint() -> Iterator[MessagesEndpoint]:
    with messages_endpoint() as running:
        yield running


@pytest.fixture
def cone_hub(tmp_path: Path, endpoint: MessagesEndpoint) -> Iterator[ConeHub]:
    cone_hub = ConeHub(tmp_path, CONE_URL=f"{endpoint.url}/v1", CONE_API="anthropic", CONE_KEY=KEY)
    yield cone_hub
    cone_hub.hub.close()


def create(cone_hub: ConeHub, **more: str) -> None:
    cone_hub.value("create", name="ada", model_id="claude-small", **more)


def test_a_chat_streams_the_answer_and_keeps_it(cone_hub: ConeHub, endpoint: MessagesEndpoint) -> None:
    create(cone_hub, system_prompt="Be brief.")
    answer = cone_hub.chat("hi")
    assert answer.text == "Hello, world"
    end = answer.result["structuredContent"]
    assert (end["finish_reason"], end["usage"]) == ("end_turn", {"input_tokens": 5, "output_tokens": 3})
    assert cone_hub.tree() == [("", ""), ("user", "hi"), ("assistant", "Hello, world")]
    cone_hub.chat("again")
    body, headers = endpoint.asked[-1]
    assert (body["model"], body["system"], body["stream"], body["max_tokens"] > 0) == (
        "claude-small",
        "Be brief.",
        True,
        True,
    )
    assert [(one["role"], one["content"]) for one in body["messages"]] == [
        ("user", "hi"),
        ("assistant", "Hello, world"),
        ("user", "again"),
    ]
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("prompt", "said"),
    [("limit", "answered 429 "), ("fault", "failed: Overloaded"), ("cut", "broke off in the middle of its answer")],
)
def test_a_chat_that_fails_keeps_nothing_and_says_why(cone_hub: ConeHub, prompt: str, said: str) -> None:
    create(cone_hub)
    words = failed(cone_hub.chat(prompt))
    assert said in words
    assert "arbor" not in words
    assert KEY not in words
    assert cone_hub.nodes() == 1


def test_the_models_are_those_that_the_endpoint_lists(cone_hub: ConeHub) -> None:
    found = cone_hub.value("registry")
    assert (found["executor"], [one["id"] for one in found["models"]]) == ("endpoint", ["claude-large", "claude-small"])
    refused = failed(cone_hub.call("create", name="bob", model_id="gpt"))
    assert "model_id: expected one of claude-large, claude-small; got 'gpt'" in refused


def test_an_unknown_api_is_an_error(tmp_path: Path, endpoint: MessagesEndpoint) -> None:
    cone_hub = ConeHub(tmp_path, CONE_URL=endpoint.url, CONE_API="other", CONE_KEY=KEY)
    try:
        create(cone_hub)
        assert "CONE_API: expected openai or anthropic, got 'other'" in failed(cone_hub.chat("hi"))
    finally:
        cone_hub.hub.close()
