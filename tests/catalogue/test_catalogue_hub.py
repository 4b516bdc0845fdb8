"""The services of the hub for running tools."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from patchbay.boot import canonical_json, import_image
from patchbay.catalogue.catalogue_hub import MAX_CALL_CHAIN
from patchbay.catalogue.reading.last_outputs import last_output
from patchbay.errors import ReadOnly, ToolFailed
from tests.waiting import BOUND

CODE = '''
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b

def ask(context) -> dict:
    """Calls a neighbour."""
    return context.call("one", "add", a=1, b=2)

def there(context) -> dict:
    """Calls the other way."""
    return context.call("two", "there", )

def counted(context) -> int:
    """Counts."""
    context.state["n"] = context.state.get("n", 0) + 1
    return context.state["n"]

def hang() -> str:
    """Hangs."""
    while True:
        pass

def motto(context) -> str:
    """Reads."""
    return context.read("variable://motto")["text"]
'''
BACK = CODE.replace('context.call("two", "there", )', 'context.call("one", "there", )')


@pytest.fixture
def hub(bench: Any) -> Any:
    bench.plug("one", CODE)
    bench.plug("two", BACK)
    bench.change({"variables/motto": bench.keep("plug anything in")})
    return bench.open()


def test_a_call_of_another_servers_tool_does_not_wait_for_a_refresh(bench: Any, hub: Any) -> None:
    with ThreadPoolExecutor(1) as pool, hub._lock:  # a refresh holds it while it builds servers
        result = pool.submit(hub.hub.call, "two", "ask", {}, bench.call(hub, "two")).result(BOUND)
    assert not result.get("isError"), result


def test_a_tool_calls_another_servers_tool(bench: Any, hub: Any) -> None:
    """`context.call`"""
    result = hub.hub.call("two", "ask", {}, bench.call(hub, "two"))
    assert not result.get("isError"), result
    assert result["structuredContent"]["structuredContent"] in (3, {"result": 3})


def test_a_cycle_of_calls_is_refused(bench: Any, hub: Any) -> None:
    result = hub.hub.call("one", "there", {}, bench.call(hub, "one"))
    assert "one.there -> two.there -> one.there" in str(result)


def test_a_chain_is_bounded(bench: Any, hub: Any) -> None:
    chain = tuple(f"s.{number}" for number in range(MAX_CALL_CHAIN))
    with pytest.raises(ToolFailed, match=f"more than {MAX_CALL_CHAIN} tools"):
        hub.hub.call("one", "add", {"a": 1, "b": 2}, bench.call(hub, "one", chain=chain))


@pytest.mark.parametrize(
    ("server", "tool", "arguments", "expected"),
    [
        ("nobody", "add", {}, "there is no server"),
        ("one", "ad", {}, "did you mean add"),
        ("one", "add", {"a": "x", "b": 1}, "one: the arguments do not fit add: a"),
        ("one", "add", {"a": 1}, "b"),
    ],
)
def test_a_server_or_tool_that_cannot_be_called_is_named(
    bench: Any, hub: Any, server: str, tool: str, arguments: Any, expected: str
) -> None:
    """T5.4, T12.6"""
    with pytest.raises(ToolFailed, match=expected):
        hub.hub.call(server, tool, arguments, bench.call(hub, "two"))


def test_a_called_tool_has_no_more_time_than_its_caller(bench: Any, hub: Any) -> None:
    """T12.5"""
    call = bench.call(hub, "two")
    call.deadline = time.monotonic() + 0.3
    result = hub.hub.call("one", "hang", {}, call)
    assert result["isError"]
    told = re.search(r"timed out after ([0-9.]+) s", result["content"][-1]["text"])
    assert told is not None and float(told[1]) < bench.server("one").timeout


def test_a_tool_reads_resources_of_the_hub(bench: Any, hub: Any) -> None:
    """VWR-27"""
    result = hub.hub.call("one", "motto", {}, bench.call(hub, "one"))
    assert result["content"][0]["text"] == "plug anything in"


def test_state_is_kept_for_each_server(bench: Any, hub: Any) -> None:
    """`context.state`"""
    for server, expected in (("one", "1"), ("one", "2"), ("two", "1")):
        result = hub.hub.call(server, "counted", {}, bench.call(hub, server))
        assert result["content"][0]["text"] == expected


def test_state_behaves_like_a_mapping(hub: Any) -> None:
    state = hub.hub.state("one")
    state["a/b é"] = {"x": [1, None]}
    state["c"] = 1
    assert dict(state) == {"a/b é": {"x": [1, None]}, "c": 1}
    del state["c"]
    assert (len(state), "c" in state) == (1, False)
    with pytest.raises(KeyError):
        del state["c"]
    with pytest.raises(ToolFailed, match="state holds JSON values"):
        state["d"] = object()
    with pytest.raises(ToolFailed, match="at most 1048576 bytes"):
        state["d"] = "x" * 2_000_000
    assert dict(hub.hub.state("two")) == {}


def test_a_read_only_hub_remembers_nothing(bench: Any) -> None:
    """V-F18"""
    image = {"version": 1, "readonly": True, "servers": [], "variables": [], "templates": []}
    import_image(bench.store, canonical_json(image), "test image", "test", "boot")
    with pytest.raises(ReadOnly, match="state cannot be changed"):
        bench.open().hub.state("one")["a"] = 1


@pytest.mark.parametrize("readonly", [False, True])
def test_an_output_is_remembered_unless_the_hub_is_read_only(bench: Any, readonly: bool) -> None:
    """V-F18, V-C10"""
    config = {"resources": {"last": {"uri": "one://last", "last_output_of": "motto"}}}
    row = {"name": "one", "kind": "python", "enabled": True}
    row |= {"definition_cid": bench.keep(CODE), "config_cid": bench.keep(config)}
    image = {"version": 1, "readonly": readonly, "servers": [row], "variables": [], "templates": []}
    import_image(bench.store, canonical_json(image), "test image", "test", "boot")
    catalogue = bench.open()
    moves = bench.store.names.past()
    with bench.store.bus.subscribe(["updated/*"]) as mailbox:
        catalogue.hub.remember(catalogue.find("one"), "motto", {"content": [{"type": "text", "text": "said"}]})
        assert (mailbox.get(0) is None) is readonly
    assert last_output(bench.store, "one", "motto") == (None if readonly else b"said")
    assert not readonly or bench.store.names.past() == moves


def test_an_update_is_announced(bench: Any, hub: Any) -> None:
    """`context.updated`"""
    with bench.store.bus.subscribe(["updated/*"]) as mailbox:
        hub.hub.updated("one", "my://é")
        assert mailbox.get(BOUND) == ("updated/one", "my://é".encode())
