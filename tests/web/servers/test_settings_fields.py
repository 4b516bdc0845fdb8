"""Fields of the form for settings, made from the schema: each shows a value and reads it back, or leaves it alone."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.config import SCHEMA
from patchbay.web.servers.settings_fields import FormField, list_sections, set_value, unshown_names


def fields(kind: str, is_program: bool = False, *tools: str) -> dict[str, FormField]:
    return {one.name: one for _, each in list_sections(kind, is_program, tools) for one in each}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("title", "Town", "Town"),
        ("instructions", "One.\nTwo.", "One.\nTwo."),
        ("timeout", 1.5, "1.5"),
        ("memory", 64, "64"),
        ("mask_errors", False, "false"),
        ("activity", "digest", '"digest"'),
        ("sandbox", "if-available", '"if-available"'),
        ("writes", ["/a", "~/b c"], "/a\n~/b c"),
        ("environment", {"A": "1", "B": "x=y"}, "A=1\nB=x=y"),
        ("network", False, "false"),
        ("network", ["api.example.com:443", "*.example.org"], "list\napi.example.com:443\n*.example.org"),
        ("limits.inline", 0, "0"),
    ],
)
def test_a_value_is_the_same_after_the_form(name: str, value: Any, text: str) -> None:
    one = fields("upstream", True).get(name) or fields("python")[name]
    assert one.show(set_value({}, one.keys, value)) == text
    assert one.read(text) == value and one.read("") is None and one.show({}) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", 5),
        ("title", "two\nlines"),
        ("timeout", True),
        ("timeout", "5"),
        ("activity", "more"),
        ("writes", []),
        ("writes", "/a"),
        ("writes", ["two\nlines"]),
        ("environment", {"A": "two\nlines"}),
        ("environment", {"A": 1}),
        ("limits.inline", {"deep": 1}),
    ],
)
def test_a_value_that_a_control_cannot_show_is_left_to_the_text(name: str, value: Any) -> None:
    one = fields("python")[name]
    document = set_value({}, one.keys, value)
    assert one.show(document) is None
    assert unshown_names(document, fields("python").values()) == [one.keys[0]]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("timeout", "soon", "expected a number"),
        ("timeout", "true", "expected a number"),
        ("activity", '"more"', "one of the choices"),
        ("environment", "A", "no = sign"),
        ("environment", "A=1\nA=2", "A has two lines"),
    ],
)
def test_a_text_without_a_value_is_refused_with_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        fields("python")[name].read(text)


def test_a_server_has_the_fields_of_its_kind_alone() -> None:
    python, program, url = fields("python", False, "wait"), fields("upstream", True), fields("upstream")
    assert {"isolation", "requirements", "environment", "tools.wait.approve", "tools.wait.schedule"} <= set(python)
    assert not {"address", "reads", "changes", "root"} & set(python)
    assert {"address", "reads", "changes", "network", "headers"} <= set(program)
    assert not {"isolation", "requirements", "tools.wait.approve"} & set(program)
    assert "reads" not in url and "headers" in url
    assert {"document", "base"} <= set(fields("openapi")) and "root" in fields("documents")
    assert {"search", "scripts", "listing.always"} <= set(fields("toolset"))
    assert not {"listing.search", "listing.scripts"} & set(fields("toolset")) and "search" not in python
    assert {"listing.search", "listing.scripts"} <= set(python)


def test_every_field_of_the_schema_that_a_control_can_show_is_in_a_form() -> None:
    """A new field of the schema needs no change of the form."""
    kinds = ("python", "shell", "static", "upstream", "openapi", "documents", "toolset", "room")
    shown = {one.keys[0] for kind in kinds for one in fields(kind, True).values()}
    left = {"$schema", "kind", "mcp_enabled"}
    simple = {name for name, schema in SCHEMA["properties"].items() if schema.get("type") in ("string", "boolean")}
    assert simple - left <= shown
    assert all(one.label and one.hint for kind in kinds for one in fields(kind, True, "x").values())


def test_an_object_that_becomes_empty_is_removed_and_an_entry_that_lists_a_tool_stays() -> None:
    assert set_value({"limits": {"inline": 1}}, ("limits", "inline"), None) == {}
    assert set_value({"limits": {"inline": 1, "read": 2}}, ("limits", "inline"), None) == {"limits": {"read": 2}}
    entry = {"tools": {"wait": {"approve": True}}}
    assert set_value(entry, ("tools", "wait", "approve"), None) == {"tools": {"wait": {}}}
    assert set_value(entry | {"auto_discover": True}, ("tools", "wait", "approve"), None) == {"auto_discover": True}
    assert entry == {"tools": {"wait": {"approve": True}}}
