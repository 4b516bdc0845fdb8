"""A server's state: values under keys, and changes that are made completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest

from patchbay.catalogue.tool_state import MAX_VALUE_BYTES, ServerState
from patchbay.errors import ReadOnly, ToolFailed
from patchbay.stores import KINDS, open_store
from tests.hubs import Hub


@pytest.fixture(params=KINDS)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerState]:
    store = open_store(request.param, tmp_path)
    yield ServerState(store, "mine", readonly=False)
    store.close()


def test_keys_are_found_by_how_they_begin(state: ServerState) -> None:
    for key in ("a/2", "a/1", "a", "b/1", "a/%2F ä", "ab"):
        state[key] = key
    assert state.starting("a/") == ["a/%2F ä", "a/1", "a/2"]
    assert state.starting("a/%2F ") == ["a/%2F ä"]
    assert state.starting("c") == []
    assert state.starting("") == sorted(state)


def test_several_values_are_read_at_once(state: ServerState) -> None:
    state["a"], state["b"] = 1, {"x": [None]}
    assert state.several(["b", "gone", "a"]) == {"b": {"x": [None]}, "a": 1}


def test_a_swap_changes_all_or_nothing(state: ServerState) -> None:
    state["a"] = 1
    assert state.swap({"a": 2, "b": 3, "c": None}, {"a": 1, "b": None})
    assert dict(state) == {"a": 2, "b": 3}
    assert not state.swap({"a": None, "d": 4}, {"a": 2, "b": None})
    assert not state.swap({"a": 9}, {"a": 1})
    assert not state.swap({"a": 9}, {"gone": 1})
    assert dict(state) == {"a": 2, "b": 3}
    assert state.swap({"a": None}, {"a": 2})
    assert dict(state) == {"b": 3}


def test_expected_values_are_compared_as_json(state: ServerState) -> None:
    state["a"] = {"x": 1, "y": [1.5, "ä"]}
    assert state.swap({"a": 0}, {"a": {"y": [1.5, "ä"], "x": 1}})
    assert not state.swap({"a": 1}, {"a": False})


def test_repeated_swaps_lose_no_change(state: ServerState) -> None:
    state["n"] = 0

    def more(_: int) -> None:
        while not state.swap({"n": (now := state["n"]) + 1}, {"n": now}):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(more, range(80)))
    assert state["n"] == 80


def test_a_value_that_json_cannot_say_or_that_is_too_large_changes_nothing(state: ServerState) -> None:
    for wrong, why in (
        (object(), "holds JSON values: b"),
        ("x" * MAX_VALUE_BYTES, f"at most {MAX_VALUE_BYTES} bytes; b has"),
    ):
        with pytest.raises(ToolFailed, match=why):
            state.swap({"a": 1, "b": wrong}, {})
    assert dict(state) == {}


def test_a_read_only_hub_changes_no_memory(tmp_path: Path) -> None:
    store = open_store("memory", tmp_path)
    ServerState(store, "mine", readonly=False)["a"] = 1
    fixed = ServerState(store, "mine", readonly=True)
    for change in (lambda: fixed.swap({"a": 2}, {}), lambda: fixed.__setitem__("a", 2), lambda: fixed.__delitem__("a")):
        with pytest.raises(ReadOnly):
            change()
    assert fixed["a"] == 1
    store.close()


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_tool_has_the_same_memory_wherever_it_runs(tmp_path: Path, isolation: str) -> None:
    source = """
def use(context) -> list:
    state = context.state
    made = state.swap({"a/1": 1, "a/2": [None], "b": "x"}, {"a/1": None})
    lost = state.swap({"a/1": 2}, {"a/1": None})
    return [made, lost, state.starting("a/"), state.several(["a/2", "b", "c"])]
"""
    hub = Hub(tmp_path, {"mine.py": source}, isolation=isolation)
    try:
        found = orjson.loads(hub.call("mine", "use").text)
        assert found == [True, False, ["a/1", "a/2"], {"a/2": [None], "b": "x"}]
    finally:
        hub.close()
