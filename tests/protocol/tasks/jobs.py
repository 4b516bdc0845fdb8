"""A server of long work, and how the tests of tasks speak to it."""

from __future__ import annotations

from typing import Any

from patchbay.activation import TASKS
from tests.hubs import Answer, Hub
from tests.waiting import until

KNOWS: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}}
ENDED = ("completed", "failed", "cancelled")

JOBS = '''"""Long work."""

import time

from patchbay.errors import ProtocolError

FORM = {"type": "object", "properties": {"v": {"type": "string"}}}


def work(context, seconds: float = 0.0, required: bool = False) -> str:
    """Work for some time."""
    context.background(required=required)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not context.cancelled:
        time.sleep(0.01)
    return "worked"


def blind(context) -> str:
    """Work without end, and ignore cancellation."""
    context.background()
    while True:
        time.sleep(0.01)


def patient(context) -> float:
    """Tell how long there is."""
    context.background()
    return context.left()


def fails(context) -> str:
    """Fail."""
    context.background(required=True)
    raise ValueError("no luck")


def errs(context, code: int = -32603) -> str:
    """End in an error of the protocol."""
    context.background()
    raise ProtocolError("out of order", code, {"part": 7})


def needs_model(context) -> str:
    """Ask a question without a possible answer."""
    context.background()
    return str(context.sample("hello"))


def acts(context) -> str:
    """Do something that counts."""
    context.background(required=True)
    context.state["acted"] = context.state.get("acted", 0) + 1
    return "acted"


def acted(context) -> str:
    """How often that was done."""
    return str(context.state.get("acted", 0))


def asks(context) -> str:
    """Ask twice under the same key, then two things at once."""
    context.background()
    one = context.elicit("One?", FORM, key="same")["content"]["v"]
    two = context.elicit("Two?", FORM, key="same")["content"]["v"]
    return f"{one} {two}"


def asks_both(context) -> str:
    """Ask two things at once."""
    from patchbay.events import Question

    context.background()
    ask = Question("elicitation/create", {"message": "?", "requestedSchema": FORM})
    answers = context.ask({"a": ask, "b": ask})
    return answers["a"]["content"]["v"] + answers["b"]["content"]["v"]


def asks_first(context) -> str:
    """Ask, then go to the background."""
    name = context.elicit("Who?", FORM, key="who")["content"]["v"]
    context.progress(1)
    context.background(required=True)
    return f"Hello, {name}!"


def tells(context):
    """Say something before and after."""
    yield "before "
    context.background()
    context.progress(1, 2, "half")
    context.log("half")
    yield "after"


def quick(name: str = "you") -> str:
    """Take no time."""
    return f"Hello, {name}!"


def resource(context) -> str:
    """The text of a resource."""
    context.background()
    return "read"
'''

CONFIG = """{"auto_discover": true, "timeout": 1, "resources": {
    "r": {"uri": "jobs://r", "name": "R", "mimeType": "text/plain", "function": "resource"}}}"""

FILES = {"jobs.py": JOBS, "jobs.mcp.json": CONFIG}


def call(hub: Hub, tool: str, capabilities: Any = KNOWS, arguments: Any = None, **more: Any) -> Answer:
    params = {"name": tool, "arguments": arguments or {}, **more}
    return hub.modern("jobs", "tools/call", params, capabilities=capabilities)


def begin(hub: Hub, tool: str, **arguments: Any) -> str:
    """Call a tool that becomes a task; answers the task's id."""
    result = call(hub, tool, arguments=arguments).result
    assert result["resultType"] == "task", result
    return str(result["taskId"])


def request_task(
    hub: Hub, method: str, id: str, capabilities: Any = KNOWS, server: str = "jobs", **more: Any
) -> Answer:
    return hub.modern(server, f"tasks/{method}", {"taskId": id, **more}, capabilities=capabilities)


def get(hub: Hub, id: str) -> dict[str, Any]:
    return request_task(hub, "get", id).result


def ended(hub: Hub, id: str) -> dict[str, Any]:
    """The task, once it has ended."""
    return dict(until(lambda: (found := get(hub, id))["status"] in ENDED and found, f"the end of {id}"))


def questions(hub: Hub, id: str, *keys: str) -> dict[str, Any]:
    """The open questions, once they are these."""

    def there() -> Any:
        found = get(hub, id)
        return sorted(found.get("inputRequests", {})) == sorted(keys) and found

    found = until(there, f"questions {keys}")
    assert found["status"] == "input_required"
    return dict(found["inputRequests"])


def accept(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"v": value}}


def update(hub: Hub, id: str, **responses: Any) -> Answer:
    return request_task(hub, "update", id, inputResponses=responses)
