"""A stranger tries to use an answer of another caller's retry a second time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.attacks.requests import call, send_request
from tests.serving.running import Hub

pytestmark = pytest.mark.process

ABLE: dict[str, Any] = {"elicitation": {}}


def test_a_request_state_serves_one_retry_of_many(hub: Hub) -> None:
    """Twice in sequence, and ten times at the same moment."""
    for tries in (1, 10):
        state = call(hub, "notes", "greet", capabilities=ABLE)["requestState"]
        params = {"name": "greet", "arguments": {}, "requestState": state}
        params["inputResponses"] = {"ask-1": {"action": "accept", "content": {"name": "Ada"}}}
        with ThreadPoolExecutor(tries) as pool:
            sent = [pool.submit(send_request, hub, "notes", "tools/call", params, ABLE) for _ in range(tries)]
            answers = [each.result().last_message for each in sent]
        assert sum("Hello, Ada" in str(answer) for answer in answers) == 1
        later = send_request(hub, "notes", "tools/call", params, ABLE).last_message
        assert later["error"]["code"] == -32602 and "was used before" in later["error"]["message"]
