"""The function of a saved script: its signature as schemas, and each fault with its line."""

from __future__ import annotations

import pytest

from patchbay.errors import ConfigError
from patchbay.python_functions.script_function import MAX_CODE_CHARACTERS, MAX_PARAMETERS, read_script_function

CLOSE = '''import release


async def close_stale(repo: str, days: int = 30) -> list[int]:
    """Close what nothing happened to.

    Args:
        repo: The repository.
    """
    return [days]
'''


def test_a_function_becomes_a_tool_as_that_of_a_definition() -> None:
    found = read_script_function(CLOSE, "close.py")
    assert (found.name, found.is_async, found.code) == ("close_stale", True, CLOSE)
    assert found.wire == {
        "name": "close_stale",
        "description": "Close what nothing happened to.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "repo": {"type": "string", "description": "The repository."},
                "days": {"type": "integer", "default": 30},
            },
            "required": ["repo"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "array", "items": {"type": "integer"}},
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str | None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("'dict[str, float]'", {"type": "object", "additionalProperties": {"type": "number"}}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Annotated[int, 'how many']", {"type": "integer", "description": "how many"}),
        ("Ids", {"type": "array", "items": {"type": "integer"}}),
        ("Any", {}),
    ],
)
def test_a_type_of_json_is_a_schema(annotation: str, schema: dict[str, object]) -> None:
    found = read_script_function(f"Ids = list[int]\n\n\ndef f(x: {annotation}): ...\n", "f.py")
    assert found.wire["inputSchema"]["properties"]["x"] == schema
    assert not found.is_async and "outputSchema" not in found.wire


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        ("x = 1\n", 1, "expected one function"),
        ("def f() -> int: ...\n\n\ndef g() -> int: ...\n", 4, "f and g are two"),
        ("def f(\n    x,\n) -> int: ...\n", 2, "the parameter x has no type: write x: str"),
        ("def f(\n    x: Foo,\n): ...\n", 2, "the type of x is 'Foo', which is no type of JSON"),
        ("def f(x: 'Foo | None'): ...\n", 1, "no type of JSON"),
        ("class Foo: ...\n\n\ndef f(x: Foo): ...\n", 4, "no type of JSON"),
        ("Foo = 'Foo'\n\n\ndef f(x: Foo): ...\n", 4, "no type of JSON"),
        ("import datetime\n\n\ndef f(x: datetime.date): ...\n", 4, "no type of JSON"),
        ("def f() -> bytes: ...\n", 1, "the type of the result is 'bytes'"),
        ("def f(x: __import__('os').system('id')): ...\n", 1, "no type of JSON"),
        ("def f(*x: int): ...\n", 1, "it takes *x"),
        ("def f(x: int, /): ...\n", 1, "positional-only"),
        ("def f(**x: int): ...\n", 1, "it takes **x"),
        ("def f(context: int): ...\n", 1, "expected another name than context"),
        ("import atexit\n\n\n@atexit.register\ndef f(): ...\n", 4, "expected no decorator"),
        ("def f():\n    x = 1\n    yield x\n", 3, "expected `return` in place of `yield`"),
        ("def f(:\n", 1, "not valid Python"),
        ("await x\n\n\ndef f(): ...\n", 1, "not valid Python"),
        (f"def f({', '.join(f'x{n}: int' for n in range(MAX_PARAMETERS + 1))}): ...\n", 1, "at most 100 parameters"),
        (f"def f(x: int = {'-' * 3000}1): ...\n", 1, "nested too deeply"),
    ],
)
def test_a_fault_names_its_line(code: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as problem:
        read_script_function(code, "f.py")
    assert problem.value.path == f"line {line}" and words in problem.value.expected


def test_helpers_begin_with_an_underscore() -> None:
    assert read_script_function("def _half(x): ...\n\n\ndef f(): ...\n", "f.py").name == "f"


def test_a_result_may_have_what_the_interpreter_turns_into_json() -> None:
    found = read_script_function("import datetime\n\n\ndef f() -> set[datetime.date]: ...\n", "f.py")
    assert found.wire["outputSchema"]["type"] == "array"


def test_a_long_script_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 100000 characters"):
        read_script_function("#" * (MAX_CODE_CHARACTERS + 1), "f.py")
