"""A caller without an account at the mounted server is asked for it, in the way that its client understands."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.access.upstreams.guarded import URL_CLIENT, Caller, connect, tools_of
from tests.hubs import Answer, Hub, Stream, sse_messages
from tests.signing_in import BASE
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]

PAGE = f"{BASE}/upstreams/far"


def asked(answer: Answer) -> tuple[str, dict[str, Any], str]:
    """The key and the params of the question in an InputRequiredResult, and its state."""
    assert answer.result["resultType"] == "input_required"
    ((key, question),) = answer.result["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    return key, question["params"], answer.result["requestState"]


def test_a_client_of_2026_that_shows_urls_is_asked_and_the_retry_waits_for_the_sign_in(ann: Caller) -> None:
    """ACCESS 8; MCP 2026-07-28, client/elicitation (URL mode) and multi-round-trip requests."""
    key, question, state = asked(ann.call("far", "sign_in", URL_CLIENT))
    assert question["mode"] == "url"
    assert question["url"] == PAGE
    assert set(question) == {"mode", "url", "message"}
    answers = {"inputResponses": {key: {"action": "accept"}}, "requestState": state}
    with ThreadPoolExecutor(1) as pool:
        retry = pool.submit(ann.call, "far", "sign_in", URL_CLIENT, **answers)
        assert not retry.done()
        connect(ann.browser.client, "far", "ann-there")
        assert "Your account is connected" in retry.result().text
    until(lambda: tools_of(ann, "far") == ["whoami"])
    assert ann.call("far", "whoami", URL_CLIENT).text == "ann-there"


def test_a_person_who_declines_gets_no_call_and_no_token_is_sent(ann: Caller) -> None:
    key, _, state = asked(ann.call("far", "sign_in", URL_CLIENT))
    answers = {"inputResponses": {key: {"action": "decline"}}, "requestState": state}
    refused = ann.call("far", "sign_in", URL_CLIENT, **answers)
    assert refused.result["isError"]
    assert "you did not connect your account" in refused.text


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
def test_a_client_that_shows_no_urls_gets_the_link_in_the_error(ann: Caller, capabilities: Any) -> None:
    refused = ann.call("far", "sign_in", capabilities)
    assert refused.result["isError"]
    assert re.search(rf"{PAGE}$", refused.text)


def answered(stream: Stream, wanted: str) -> dict[str, Any]:
    """The first message of a stream that has this member."""
    for frame in stream:
        for message in sse_messages(frame):
            if wanted in message:
                return message
    raise AssertionError(f"the stream ended without {wanted}")


def test_a_client_of_2025_is_asked_on_the_stream_and_its_call_goes_on_after_the_sign_in(hub: Hub, ann: Caller) -> None:
    """MCP 2025-11-25, client/elicitation (URL mode): the question has an `elicitationId`."""
    hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {ann.token}"
    session = hub.open("far", capabilities=URL_CLIENT)
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "sign_in"}}
    stream = hub.stream("far", call, headers)
    question = answered(stream, "method")
    assert question["params"]["mode"] == "url"
    assert question["params"]["url"] == PAGE
    assert question["params"]["elicitationId"]
    accepted = hub.send("far", {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}, headers)
    assert accepted.status == 202
    connect(ann.browser.client, "far", "ann-there")
    assert "Your account is connected" in answered(stream, "result")["result"]["content"][0]["text"]


def test_resources_prompts_and_plain_calls_use_the_account_of_their_caller(hub: Hub, ann: Caller, ben: Caller) -> None:
    connect(ann.browser.client, "far", "ann-there")
    until(lambda: tools_of(ann, "far") == ["whoami"])
    connect(ben.browser.client, "far", "ben-there")
    for caller, name in ((ann, "ann-there"), (ben, "ben-there")):
        read = caller.modern("far", "resources/read", {"uri": "guarded://note/7"}).result
        assert read["contents"][0]["text"] == f"note 7 of {name}"
        prompt = caller.modern("far", "prompts/get", {"name": "ask"}).result
        assert prompt["messages"][0]["content"]["text"] == f"What does {name} want?"
    # A resource may be that of one caller only, so that none is listed.
    assert ann.modern("far", "resources/list").result["resources"] == []
    assert ann.modern("far", "resources/templates/list").result["resourceTemplates"] != []
