"""Independent functions: a call starts them and does not wait for them."""

from __future__ import annotations

from pathlib import Path

from patchbay.catalogue.catalogue_hub import MAX_INDEPENDENT_FUNCTIONS
from tests.hubs import Hub
from tests.waiting import until

CODE = '''
import time

def begin(name: str, context) -> str:
    """Start something that goes on.

    Args:
        name: What to call it.
    """
    context.start("_go_on", name=name)
    return "begun"

def broken(context) -> str:
    """Start what is not there."""
    context.start("_nowhere")
    return "begun"

def circle(context) -> None:
    """Start oneself."""
    context.state["circles"] = context.state.get("circles", 0) + 1
    context.start("circle")

def value(name: str, context) -> str:
    """What was remembered."""
    return str(context.state.get(name))

def use(context) -> None:
    """Use a tool of one's own."""
    context.uses("Hammer", {"nail": 1}, "use-1")

def _go_on(name: str, context) -> None:
    try:
        context.state[name] = "running"
        while name.startswith("long"):
            time.sleep(0.01)
        context.state[name] = "done"
    finally:
        context.state[f"{name} ended"] = True
'''


def test_it_goes_on_after_its_call_has_ended(tmp_path: Path) -> None:
    """SUB-5"""
    hub = Hub(tmp_path, {"alone.py": CODE})
    assert hub.call("alone", "begin", {"name": "short"}).text == "begun"
    until(lambda: hub.call("alone", "value", {"name": "short"}).text == "done", "it is done")
    hub.close()


def test_it_ends_with_the_hub_and_may_clean_up(tmp_path: Path) -> None:
    """X-15"""
    hub = Hub(tmp_path, {"alone.py": CODE})
    hub.call("alone", "begin", {"name": "long"})
    until(lambda: hub.call("alone", "value", {"name": "long"}).text == "running", "it runs")
    hub.catalogue.close()
    until(lambda: hub.call("alone", "value", {"name": "long ended"}).text == "True", "it has cleaned up")
    hub.catalogue.store.close()


def test_a_failing_function_affects_no_other(tmp_path: Path) -> None:
    """X-15"""
    hub = Hub(tmp_path, {"alone.py": CODE})
    assert hub.call("alone", "broken").text == "begun"
    assert hub.call("alone", "value", {"name": "x"}).text == "None"
    hub.close()


def test_a_function_cannot_start_itself_again(tmp_path: Path) -> None:
    """A chain of calls never contains a tool twice."""
    hub = Hub(tmp_path, {"alone.py": CODE})
    hub.call("alone", "circle")
    until(lambda: hub.call("alone", "value", {"name": "circles"}).text == "2", "the second one has run")
    assert hub.call("alone", "value", {"name": "circles"}).text == "2"
    hub.close()


def test_there_are_not_more_than_a_bound(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"alone.py": CODE, "alone.mcp.json": '{"isolation": "inline"}'})
    for number in range(MAX_INDEPENDENT_FUNCTIONS):
        assert hub.call("alone", "begin", {"name": f"long {number}"}).text == "begun"
    answer = hub.call("alone", "begin", {"name": "one too many"})
    assert answer.result["isError"] and "independent functions run already" in answer.text
    hub.close()


def test_an_agents_own_tool_is_reported(tmp_path: Path) -> None:
    """SUB-24: and it is in the result only where there is no other content (SUB-C4)."""
    hub = Hub(tmp_path, {"alone.py": CODE})
    params = {"name": "use", "arguments": {}, "_meta": {"progressToken": 1}}
    answer = hub.legacy("alone", "tools/call", params)
    messages = [one["params"]["message"] for one in answer.messages if "params" in one]
    assert messages == ["Using tool: Hammer"]
    assert answer.text == "Using tool: Hammer"
    hub.close()
