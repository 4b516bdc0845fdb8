"""Python definitions: which functions are listed, how they are called, and that discovery runs nothing."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patchbay.descriptors import Descriptor, Discovery
from patchbay.kinds.discovery import discover


def found(source: str, name: str = "srv") -> Discovery:
    return discover("python", name, source.encode())


def tools(source: str, name: str = "srv") -> dict[str, Descriptor]:
    return {each.name: each for each in found(source, name).descriptors}


def reasons(source: str, name: str = "srv") -> dict[str, str]:
    return {each.where: each.reason for each in found(source, name).problems}


def test_a_function_becomes_a_tool_with_its_name_words_and_schema() -> None:
    """T11.1, VWR-22: one function, everything that clients see."""
    only = tools('def add(a: int, b: int = 2) -> int:\n    """Add two numbers."""\n    return a + b\n')["add"]
    assert only.kind == "tool"
    assert only.source == "discovered"
    assert only.target == {"function": "add"}
    assert only.wire == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "integer"},
    }


def test_all_public_functions_of_a_module_are_listed_in_the_order_of_the_source() -> None:
    """T11.3, V-C4b: plain and async functions, without nested ones and methods, and without an import."""
    source = """
from os import getcwd
import json
def zebra(): ...
async def ape(): ...
class Keeper:
    def feed(self): ...
def bear():
    def cub(): ...
    return cub
short = lambda x: x
also = bear
"""
    assert list(tools(source)) == ["zebra", "ape", "bear"]
    assert found(source).problems == ()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("def f(*rest): ...", "*rest"),
        ("def f(**more): ...", "**more"),
        ("def f(a, b, /, c): ...", "positional-only parameters (a, b)"),
        ("def größe(): ...", "'größe' is not a tool name"),
        (f"def {'x' * 129}(): ...", "1 to 128"),
    ],
)
def test_a_function_that_cannot_be_called_by_name_is_a_problem_with_a_reason(function: str, reason: str) -> None:
    """T11.4, V-C4b: functions with parameters that JSON arguments cannot fill."""
    read = found("# first line\n" + function)
    assert read.descriptors == ()
    assert [(problem.line, reason in problem.reason) for problem in read.problems] == [(2, True)]


def test_a_private_function_is_not_listed_and_is_not_a_problem() -> None:
    """T11.4: an underscore at the start of a name says that its author does not want it listed."""
    read = found("def _hidden(): ...\ndef __getattr__(name): ...\n")
    assert (read.descriptors, read.problems) == ((), ())


def test_descriptions_are_first_lines_of_docstrings() -> None:
    """T11.5: of the function, of the module; a function without a docstring has none."""
    source = '"""All about\nanimals."""\ndef a():\n    """\n    Feed one.\n\n    At noon.\n    """\ndef b(): ...\n'
    assert found(source).description == "All about"
    assert tools(source)["a"].wire["description"] == "Feed one."
    assert "description" not in tools(source)["b"].wire


def test_the_schema_matches_the_parameters_and_keyword_only_parameters() -> None:
    """T11.6: required, optional, keyword-only, undescribed; without the hub's own parameters."""
    source = "def f(plain, count: int = 3, *, context, size: float, label: str = 'x', when=now()): ..."
    assert tools(source)["f"].wire["inputSchema"] == {
        "type": "object",
        "properties": {
            "plain": {},
            "count": {"type": "integer", "default": 3},
            "size": {"type": "number"},
            "label": {"type": "string", "default": "x"},
            "when": {},
        },
        "required": ["plain", "size"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_object_schema() -> None:
    """S-F8: the root is an object also then, because some clients otherwise refuse the whole list."""
    assert tools("def f(): ...")["f"].wire["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_main_is_listed_under_the_name_of_the_server() -> None:
    """V-C5: and still runs the function main."""
    only = tools("def main(markdown: str): ...", name="markdown")["markdown"]
    assert only.wire["name"] == "markdown"
    assert only.target == {"function": "main"}


def test_a_function_called_like_the_server_wins_over_main() -> None:
    """V-C5: the same name cannot be listed twice."""
    source = "def main(): ...\ndef echo(): ...\n"
    assert tools(source, "echo")["echo"].target == {"function": "echo"}
    assert "'echo'" in reasons(source, "echo")["main"]
    assert list(tools(source, "main")) == ["main", "echo"]


def test_a_generator_streams_and_has_no_output_schema() -> None:
    """Only a yield of the function itself counts."""
    source = """
from typing import Iterator, AsyncIterator
def parts() -> Iterator[int]:
    for n in range(3):
        if n:
            yield n
async def later() -> AsyncIterator[int]:
    yield 1
def delegating() -> list[int]:
    return (yield from parts())
def whole() -> list[int]:
    def inner():
        yield 1
    return list(inner())
"""
    listed = tools(source)
    for name in ("parts", "later", "delegating"):
        assert listed[name].target == {"function": name, "streams": True}
        assert "outputSchema" not in listed[name].wire
    assert listed["whole"].target == {"function": "whole"}
    assert listed["whole"].wire["outputSchema"] == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("returns", "schema"),
    [
        ("int", {"type": "integer"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("Place", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        ("int | float", {"anyOf": [{"type": "integer"}, {"type": "number"}]}),
        *[(text, None) for text in ("str", "bytes", "None", "Any", "Unknown", "int | None", "str | dict", "'str'")],
        *[
            (text, None)
            for text in (
                "dict",
                "list",
                "list[Any]",
                "date",
                "Iterable[int]",
                "'Iterable[int]'",
                "Awaitable[int]",
                "Text",
            )
        ],
    ],
)
def test_a_return_type_gives_an_output_schema_unless_the_result_may_be_text(returns: str, schema: Any) -> None:
    """VWR-38: with an output schema, clients require structured content."""
    source = f"""
from dataclasses import dataclass
from datetime import date
from typing import *
@dataclass
class Place:
    name: str
def f() -> {returns}: ...
"""
    assert tools(source)["f"].wire.get("outputSchema") == schema


@pytest.mark.parametrize(
    "returned",
    [
        '{"output": "<p>", "content_type": "text/html"}',
        '{"type": "image", "data": d}',
        '[{"type": "text", "text": "t"}]',
    ],
)
def test_a_function_that_visibly_returns_content_blocks_has_no_output_schema(returned: str) -> None:
    """Such results become content, not structured content."""
    assert "outputSchema" not in tools(f"def f() -> dict[str, str]:\n    return {returned}\n")["f"].wire


def test_words_about_the_result_describe_the_output_schema() -> None:
    source = 'def f() -> int:\n    """Count.\n\n    Returns:\n        int: How many there are.\n    """\n'
    assert tools(source)["f"].wire["outputSchema"] == {"type": "integer", "description": "How many there are."}


def test_words_about_parameters_describe_their_properties() -> None:
    """VWR-22, 34.21: the words of `Annotated` win over those of the docstring."""
    source = """
from typing import Annotated
def f(a: Annotated[int, "of the type"], b: Annotated[int, "kept"] = 1, c: int = 2):
    '''F.

    :param a: of the docstring
    :param c: of the docstring too
    '''
"""
    properties = tools(source)["f"].wire["inputSchema"]["properties"]
    assert properties["a"] == {"type": "integer", "description": "of the type"}
    assert properties["c"] == {"type": "integer", "description": "of the docstring too", "default": 2}
    assert properties["b"] == {"type": "integer", "description": "kept", "default": 1}


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("None", {"default": None}),
        ("-1.5", {"default": -1.5}),
        ("(1, 'a')", {"default": [1, "a"]}),
        ("{'k': [True]}", {"default": {"k": [True]}}),
        ("Colour.RED", {"default": "r"}),
        ("Colour.RED.value", {"default": "r"}),
        *[
            (text, {})
            for text in ("Colour", "Colour.PINK", "{1}", "{1: 2}", "b'x'", "1e999", "1j", "2**70", "a.b", "f()")
        ],
        (str(2**64), {}),
    ],
)
def test_a_default_is_kept_when_it_is_a_json_value(default: str, expected: dict[str, Any]) -> None:
    """Any other default makes the parameter optional and is not evaluated."""
    schema = tools(f"import enum\nclass Colour(enum.Enum):\n    RED = 'r'\ndef f(x={default}): ...")["f"].wire[
        "inputSchema"
    ]
    assert schema["properties"] == {"x": expected}
    assert "required" not in schema


def test_a_null_default_makes_null_a_value() -> None:
    """T13.7: `x: int = None` takes null, whatever its annotation."""
    listed = tools("def f(a: int = None, b: int | None = None, c: 'Literal[1, None]' = None): ...")["f"]
    assert listed.wire["inputSchema"]["properties"] == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "b": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "c": {"enum": [1, None], "default": None},
    }


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a): ...\ndef f(b): ...", {"f": ["b"]}),
        ("def f(a): ...\nf = 1", {}),
        ("def f(a): ...\nf: object = 1", {}),
        ("def f(a): ...\nfrom m import f", {}),
        ("def f(a): ...\ndel f", {}),
        ("def f(a): ...\nf, g = 1, 2", {}),
        ("def f(a): ...\nfor f in (): pass", {}),
        ("if here:\n    def f(a): ...\nelse:\n    def f(b): ...", {"f": ["a"]}),
        ("if TYPE_CHECKING:\n    def f(a): ...\nelse:\n    def f(b): ...", {"f": ["b"]}),
        ("if typing.TYPE_CHECKING:\n    def f(a): ...", {}),
        ("if not TYPE_CHECKING:\n    def f(a): ...", {"f": ["a"]}),
        ("if __name__ == '__main__':\n    def f(a): ...", {}),
        ("if False:\n    def f(a): ...\nelse:\n    def g(b): ...", {"g": ["b"]}),
        ("try:\n    def f(a): ...\nexcept ImportError:\n    def f(b): ...", {"f": ["a"]}),
        ("with lock:\n    def f(a): ...", {"f": ["a"]}),
        ("@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a): ...", {"f": ["a"]}),
        ("@cache\ndef f(a): ...", {"f": ["a"]}),
    ],
)
def test_the_binding_that_holds_when_the_module_runs_is_the_one_listed(
    source: str, names: dict[str, list[str]]
) -> None:
    """V-C4b: redefinitions, branches, imports and deletions at module level."""
    assert {name: list(each.wire["inputSchema"]["properties"]) for name, each in tools(source).items()} == names


def test_nothing_of_a_definition_is_run(tmp_path: Path) -> None:
    """Not at module level, not in defaults, decorators, annotations or class bodies."""
    trace = tmp_path / "ran"
    touch = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    source = f"""
{touch}
import no_such_module_anywhere
class C(metaclass={touch}):
    x: {touch} = {touch}
@(lambda f: {touch})
def f(a: {touch}, b: "{touch.replace('"', "'")}" = {touch}) -> C: ...
"""
    assert list(tools(source)) == ["f"]
    assert not trace.exists()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("def f(x='\\ud800'): ...", "UTF-8"),
        ("def f(x: Annotated[str, pydantic.Field(pattern='(?=a)')]): ...", "regex"),
        ("def f(x: Annotated[int, pydantic.Field(multiple_of=0)]): ...", "schema would not be valid"),
    ],
)
def test_a_function_whose_schema_could_not_be_used_takes_down_only_itself(function: str, reason: str) -> None:
    source = f"import pydantic\nfrom typing import Annotated\n{function}\ndef fine(): ...\n"
    assert list(tools(source)) == ["fine"]
    assert reason in reasons(source)["f"]


def test_three_hundred_functions_are_read_in_well_under_a_second() -> None:
    """A saved file is live within two seconds."""
    function = '''
def f{n}(a: int, b: list[str] | None = None, c: dict[str, int] | None = None) -> dict[str, int]:
    """Do it.

    Args:
        a: The first.
        b: The second.
    """
'''
    begun = time.process_time()
    assert len(tools("".join(function.format(n=n) for n in range(300)))) == 300
    assert time.process_time() - begun < 1


NAMES = ("a", "b", "c", "d")
KINDS = ("plain", "default", "keyword", "keyword default")


@st.composite
def signatures(draw: st.DrawFn) -> str:
    """A parameter list that Python accepts and discovery lists."""
    kinds = sorted(draw(st.lists(st.sampled_from(KINDS), max_size=len(NAMES))), key=KINDS.index)
    parts: list[str] = []
    for name, kind in zip(NAMES, kinds, strict=False):
        if kind.startswith("keyword") and "*" not in parts:
            parts.append("*")
        parts.append(f"{name}=1" if kind.endswith("default") else name)
    return ", ".join(parts)


@given(signatures(), st.sets(st.sampled_from((*NAMES, "other"))))
def test_the_schema_accepts_exactly_the_calls_that_python_accepts(parameters: str, given_names: set[str]) -> None:
    """T11.6: names and required ones agree with inspect.signature(...).bind."""
    source = f"def f({parameters}): ..."
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    arguments = dict.fromkeys(given_names, 1)
    try:
        inspect.signature(namespace["f"]).bind(**arguments)
        binds = True
    except TypeError:
        binds = False
    schema = tools(source)["f"].wire["inputSchema"]
    Draft202012Validator.check_schema(schema)
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(arguments) is binds


@pytest.mark.parametrize("source", ["def f(self, a: int) -> str: ...", "async def f(self): ..."])
def test_a_function_with_self_is_not_listed_because_it_cannot_be_called(source: str) -> None:
    """Issue 50 item 13."""
    found = discover("python", "notes", source.encode())
    assert found.descriptors == ()
    assert [(one.where, one.line) for one in found.problems] == [("f", 1)]
    assert "self" in found.problems[0].reason and "remove it" in found.problems[0].reason


def test_self_beside_the_first_parameter_is_an_argument_like_any_other() -> None:
    [tool] = discover("python", "notes", b"def f(a: int, self: str = 'x') -> str: ...").descriptors
    assert list(tool.wire["inputSchema"]["properties"]) == ["a", "self"]
