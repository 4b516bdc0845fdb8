"""Schemas of a mounted server or of a member of a room that make a huge form, or none: the page stays usable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import Tab
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser

MAX_ELEMENTS = 20_000
"""Elements of one form, at most; without limits these schemas make millions."""

LIST: dict[str, Any] = {"type": "array", "minItems": 10, "items": {"$ref": "#/$defs/list"}}
CHOICE: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/choice"}, {"type": "object", "properties": {}}]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "$defs": {"list": LIST, "choice": CHOICE}}


SCHEMAS = {
    "grows": _object(**{f"a{number}": {"$ref": "#"} for number in range(40)}),
    "lists": _object(a=LIST),
    "chooses": _object(a=CHOICE),
    "formats": _object(
        **{name: {"type": "string", "format": name, "default": "word"} for name in ("toString", "constructor")},
        proto={"type": "string", "format": "__proto__", "default": "word"},
    ),
    "booleans": _object(a={"anyOf": [True, {"const": 1}]}, b={"type": "string"}),
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "servers").mkdir()
    tools = "\n".join(f'def {name}(context, **given) -> dict:\n    """T."""\n    return given\n' for name in SCHEMAS)
    (folder / "servers" / "hard.py").write_text(tools)
    given = {
        name: {"description": "Answer.", "inputSchema": schema, "function": name} for name, schema in SCHEMAS.items()
    }
    (folder / "servers" / "hard.mcp.json").write_text(json.dumps({"tools": given}))
    with running(folder) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, hub: Hub) -> Iterator[Tab]:
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}")
    yield tab
    tab.close()


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_hostile_schema_gets_a_form_of_limited_size(tab: Tab, name: str) -> None:
    """References to itself, lists in lists, a choice of itself, and names that every JavaScript object has."""
    form = tab.item("hard", name).item.locator(".try form").first
    expect(form.locator(".actions > button").first).to_be_visible()
    assert form.locator("*").count() < MAX_ELEMENTS


def test_a_format_with_the_name_of_a_javascript_method_changes_no_value(tab: Tab) -> None:
    given = tab.item("hard", "formats").call()["structuredContent"]
    assert given == {"toString": "word", "constructor": "word", "proto": "word"}
