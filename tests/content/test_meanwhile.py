"""What the reference servers do when another call was faster between two of their steps."""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from patchbay.errors import ToolFailed
from tests.checkout import ROOT

DEFINITIONS = ROOT / "reference_templates/servers/definitions"


class Racing(dict[str, Any]):
    """A memory in which somebody else has just done something: `gone` are keys that were listed a moment ago."""

    gone: tuple[str, ...] = ()

    def starting(self, prefix: str) -> list[str]:
        return sorted(key for key in (*self, *self.gone) if key.startswith(prefix))

    def several(self, keys: Iterable[str]) -> dict[str, Any]:
        return {key: self[key] for key in keys if key in self}

    def swap(self, changes: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        return False


class Context:
    """A context of a call whose other servers answer whatever they are asked."""

    def __init__(self, state: Racing) -> None:
        self.state = state
        self.called: list[str] = []

    def call_quietly(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        self.called.append(f"{server}.{tool}")
        return {"content": [], "structuredContent": {"tree_id": "t", "root": "r"}}


def functions(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DEFINITIONS / f"{name}.py"))


def test_a_cone_with_a_name_taken_meanwhile_is_not_created() -> None:
    """Also after the other call has given the name up again."""
    context = Context(Racing())
    with pytest.raises(ToolFailed, match="there is a cone 'ada' already"):
        functions("cone")["create"]("ada", "small", context=context)
    assert context.called == ["arbor.tree_create", "arbor.tree_release"]


def test_sessions_are_listed_though_one_is_deleted_meanwhile() -> None:
    state = Racing({"session/a": {"name": "a", "forked": False}})
    state.gone = ("session/b",)
    found = functions("claudecode")["list"](context=Context(state))
    assert found == {"type": "session_list", "sessions": [{"name": "a"}]}
