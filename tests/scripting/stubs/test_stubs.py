"""Stubs of any schema: they always parse, name only what they declare, and the checker knows their functions."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchbay.descriptors import Descriptor
from patchbay.scripting.modules import ScriptModule, ScriptTool
from patchbay.scripting.stubs.functions import HEADER, MAX_STUB_CHARACTERS, function_stub
from patchbay.scripting.stubs.names import FreeNames, identifier, module_name, unique_names
from tests.checkout import ROOT
from tests.scripting.stubs.schemas import HOSTILE_NAMES, Checker, checkers, is_name, names, undefined_names, wires

RECORDED = ROOT / "tests/upgrade/expected-b91de17c.json"


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    yield from checkers()


def module_of(found: list[dict[str, Any]]) -> ScriptModule:
    tools = (ScriptTool("m", Descriptor("tool", str(one["name"]), one, {}), str(one["name"])) for one in found)
    return ScriptModule("m", tools)


@given(st.lists(names, max_size=12))
def test_names_become_identifiers_that_differ(found: list[str]) -> None:
    made = unique_names(found, {"taken"})
    assert set(made) == set(found) and len(set(made.values())) == len(made)
    assert all(is_name(one) and one != "taken" for one in made.values())


@given(names)
def test_a_name_that_python_has_stays(name: str) -> None:
    assert is_name(identifier(name))
    if is_name(name) and len(name) <= 80:
        assert identifier(name) == name


def test_many_names_that_are_cut_to_one_do_not_take_the_square_of_their_number() -> None:
    """Counted, not timed: each name is looked up about once."""
    taken = Looked()
    free = FreeNames(taken)
    assert len({free.take("x" * 80) for _ in range(2000)}) == 2000
    assert taken.looks < 3 * 2000


class Looked(frozenset[str]):
    """No names; counts how often something looked."""

    looks = 0

    def __contains__(self, name: object) -> bool:
        self.looks += 1
        return super().__contains__(name)


@pytest.mark.parametrize(
    ("server", "module"),
    [("git", "git"), ("time", "time_"), ("json", "json_"), ("my-server", "my_server"), ("1", "x1")],
)
def test_the_module_of_a_server_is_no_standard_module(server: str, module: str) -> None:
    assert module_name(server) == module


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(wires, min_size=1, max_size=4))
def test_the_stubs_of_any_tools_parse_and_name_only_what_they_declare(found: list[dict[str, Any]]) -> None:
    module = module_of(found)
    text = module.stubs(module.tools)
    assert undefined_names(text) == set()
    declared = [one.name for one in ast.parse(text).body if isinstance(one, ast.AsyncFunctionDef)]
    assert declared == list(module.tools)
    assert len(text) <= (MAX_STUB_CHARACTERS + 1000) * len(module.tools)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(found=st.lists(wires, min_size=1, max_size=8))
def test_the_checker_takes_each_function_of_any_tools(checker: Checker, found: list[dict[str, Any]]) -> None:
    module = module_of(found)
    code = "\n".join(["import m", *(f"m.{name}" for name in module.tools)])
    assert checker.problems(module.stubs(module.tools), list(module.tools), code) == ""


PACKAGES: dict[str, list[dict[str, Any]]] = json.loads((ROOT / "benchmarks/tool_lists.json").read_text("utf-8"))
"""The lists of forty packages of PyPI and npm, as they answered `tools/list`."""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_checker_takes_each_function_of_a_real_package(checker: Checker, package: str) -> None:
    """Issue 55, item 1: each function has each argument of its tool, and no type is wrong."""
    module = module_of(PACKAGES[package])
    text = module.stubs(module.tools)
    assert undefined_names(text) == set()
    code = "\n".join(["import m", *(f"m.{name}" for name in module.tools)])
    assert checker.problems(text, list(module.tools), code) == ""
    functions = {one.name: one for one in ast.parse(text).body if isinstance(one, ast.AsyncFunctionDef)}
    assert list(functions) == list(module.tools) and len(functions) == len(PACKAGES[package])
    for name, tool in module.tools.items():
        renamed = {public: own for own, public in module.stub(name).renamed.items()}
        wanted = {renamed.get(one, one) for one in tool.descriptor.wire["inputSchema"].get("properties", {})}
        assert {one.arg for one in functions[name].args.kwonlyargs} == wanted


def typed(schema: dict[str, Any], result: dict[str, Any] | None = None) -> str:
    wire = {"name": "f", "inputSchema": schema} | ({"outputSchema": result} if result is not None else {})
    return f"{HEADER}\n\n{function_stub('f', wire, 'F', ('f',)).text}\n"


ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "from": {"type": "string"},
        "count": {"type": "integer", "default": 20},
        "price": {"type": "number"},
        "mode": {"enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": ["string", "integer"]}},
        "tree": {"$ref": "#/$defs/node"},
        "free": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "no": {"type": ["string", "null"]},
    },
    "required": ["from"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"na-me": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["na-me"],
        }
    },
}
RESULT = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}},
    "required": ["rows"],
}


@pytest.mark.parametrize(
    "call",
    [
        'await m.f(from_="a")',
        'await m.f(from_="a", count=1, price=2, mode="fast", tags=["a", 1], free={"a": True}, no=None)',
        'await m.f(from_="a", tags=["a" for one in "ab"])',
        'await m.f(from_="a", tree={"na-me": "x", "kids": [{"na-me": "y"}]})',
        '(await m.f(from_="a"))["rows"][0]["id"].bit_length()',
    ],
)
def test_what_fits_a_schema_fits_its_types(checker: Checker, call: str) -> None:
    assert checker.problems(typed(ORDER, RESULT), ["f"], f"import m\n{call}") == ""


@pytest.mark.parametrize(
    "call",
    [
        "await m.f()",
        "await m.f(from_=1)",
        'await m.f("a")',
        'await m.f(from_="a", count="1")',
        'await m.f(from_="a", mode="quick")',
        'await m.f(from_="a", tags="text", count=None)',
        'await m.f(from_="a", tree={"name": "x"})',
        'await m.f(from_="a", tree={"na-me": "x", "kids": [{"na-me": 1}]})',
        'await m.f(from_="a", free={"a": 1})',
        'await m.f(from_="a", other=1)',
        'm.f(from_="a")',
        '(await m.f(from_="a"))["columns"]',
        '(await m.f(from_="a"))["rows"][0]["id"].upper()',
    ],
)
def test_what_fits_no_schema_fits_no_types(checker: Checker, call: str) -> None:
    assert "main.py:2:" in checker.problems(typed(ORDER, RESULT), ["f"], f"import m\n{call}")


def test_arguments_with_other_names_are_told_apart() -> None:
    stub = function_stub("f", {"inputSchema": {"properties": {one: {} for one in HOSTILE_NAMES}}}, "F", ("f",))
    assert stub.renamed["class_"] == "class" and "class__" in stub.renamed
    assert set(stub.renamed.values()) | {"self", "list", "dict", "Any", "Literal", "TypedDict", "print"} >= {
        one for one in HOSTILE_NAMES if not is_name(one)
    }
    ast.parse(stub.text)


def test_a_result_of_fastmcp_is_unwrapped() -> None:
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True}
    assert "-> int:" in typed({}, wrapped)
    assert "-> F_Result:" in typed({}, {**wrapped, "x-fastmcp-wrap-result": False})


def test_a_schema_that_grows_without_end_gives_a_short_stub() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for number in range(500):
        deep = {"type": "object", "properties": {f"level{number}": deep, "other": deep}}
    began = time.process_time()
    text = typed(deep, deep)
    assert len(text) < MAX_STUB_CHARACTERS + 1000 and not undefined_names(text)
    assert time.process_time() - began < 20
    lists: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        lists = {"type": "array", "items": lists}
    assert not undefined_names(typed({"properties": {"deep": lists}}, lists))
    wide = {"type": "object", "properties": {f"member{number}": {"type": "string"} for number in range(5000)}}
    assert "**arguments: Any" in typed(wide)


def test_the_tools_that_ship_with_the_hub_have_stubs_with_types(checker: Checker) -> None:
    lists = json.loads(RECORDED.read_text())["lists"]
    found: list[dict[str, Any]] = []
    pending: list[Any] = [lists]
    while pending:
        one = pending.pop()
        if isinstance(one, dict) and "inputSchema" in one:
            found.append(one)
        elif isinstance(one, dict | list):
            pending += one.values() if isinstance(one, dict) else one
    assert len(found) > 30
    by_name = {one["name"]: one for one in found}
    module = module_of(list(by_name.values()))
    text = module.stubs(module.tools)
    assert not undefined_names(text)
    code = "\n".join(["import m", *(f"m.{name}" for name in module.tools)])
    assert checker.problems(text, list(module.tools), code) == ""
    assert text.count("**arguments: Any") <= len(by_name) // 4


def test_a_module_of_ten_thousand_tools_shows_a_script_those_that_its_text_names(checker: Checker) -> None:
    module = module_of([{"name": f"tool_{number}", "inputSchema": ORDER} for number in range(10_000)])
    seen = module.seen_by({"m", "tool_7", "tool_9999", "nothing"})
    assert seen == ["tool_7", "tool_9999"]
    assert checker.problems(module.stubs(seen), seen, 'import m\nawait m.tool_7(from_="a")') == ""
    assert "no member" in checker.problems(module.stubs(seen), seen, "import m\nawait m.tool_10000()")
