"""`Field(...)` as the default of a parameter means what pydantic means by it (issue 50 item 2)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import create_model

from patchbay.kinds.discovery import discover
from patchbay.kinds.python.definitions import Definition
from tests.hubs import Hub

SOURCE = '''"""Functions with fields."""

import enum
from typing import Annotated, Literal, Optional

import pydantic
from pydantic import AliasChoices, Field
from pydantic import Field as F


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


LIMIT = Field(5, ge=1)
Size = Annotated[int, Field(ge=1, description="A size.")]


def a(limit: int = Field(10, ge=1, le=100, description="How many.")) -> dict: return {"limit": limit}
def b(limit: int = Field(..., gt=0, lt=9)) -> dict: return {"limit": limit}
def c(limit: int = Field(ge=1)) -> dict: return {"limit": limit}
def d(words: list[str] = Field(default_factory=list, max_length=2)) -> dict: return {"words": words}
def e(
    name: str = Field("x", alias="theName", min_length=1, max_length=3, pattern="^[a-z]+$"),
) -> dict: return {"name": name}
def f(name: str = Field(default="x", title="Name", examples=["a", "b"], deprecated=True)) -> dict: return {"name": name}
def g(name: str = Field("x", json_schema_extra={"x-place": 1, "examples": ["q"]})) -> dict: return {"name": name}
def h(number: float = pydantic.Field(1.5, multiple_of=0.5)) -> dict: return {"number": number}
def i(limit: int = F(3, validation_alias="most", alias="other")) -> dict: return {"limit": limit}
def j(limit: int = LIMIT) -> dict: return {"limit": limit}
def k(limit: Annotated[int, Field(ge=1, le=5, description="Few.")] = 2) -> dict: return {"limit": limit}
def l(limit: Annotated[int, Field(default=4, le=5)]) -> dict: return {"limit": limit}
def m(limit: Annotated[int, Field(alias="most")]) -> dict: return {"limit": limit}
def n(limit: Annotated[int, Field(le=50)] = Field(7, ge=1)) -> dict: return {"limit": limit}
def o(limit: Optional[int] = Field(None, ge=1)) -> dict: return {"limit": limit}
def p(kind: Literal["x", "y"] = Field("x", description="A kind.")) -> dict: return {"kind": kind}
def q(*, limit: int = Field(10, ge=1)) -> dict: return {"limit": limit}
async def r(limit: int = Field(10, ge=1)) -> dict: return {"limit": limit}
def s(colour: Colour = Field(Colour.RED, description="A colour.")) -> dict: return {"colour": colour.value}
def t(size: Size = Field(3, le=9)) -> dict: return {"size": size}
def u(limit=Field(10, description="Any value.")) -> dict: return {"limit": limit}
def v(limit: int = Field(1, validation_alias=AliasChoices("one", "two"))) -> dict: return {"limit": limit}
'''

DEFAULTS = {
    "a": {"limit": 10},
    "d": {"words": []},
    "e": {"name": "x"},
    "f": {"name": "x"},
    "g": {"name": "x"},
    "h": {"number": 1.5},
    "i": {"limit": 3},
    "j": {"limit": 5},
    "k": {"limit": 2},
    "l": {"limit": 4},
    "n": {"limit": 7},
    "o": {"limit": None},
    "p": {"kind": "x"},
    "q": {"limit": 10},
    "r": {"limit": 10},
    "s": {"colour": "red"},
    "t": {"size": 3},
    "u": {"limit": 10},
    "v": {"limit": 1},
}
"""What each function returns without arguments; those that are not here need one."""

NAMES = "abcdefghijklmnopqrst"
"""The functions whose schema pydantic describes too; it has no words for the last two."""

GIVEN: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a": ({"limit": 100}, [{"limit": 0}, {"limit": 101}, {"limit": "x"}]),
    "b": ({"limit": 8}, [{}, {"limit": 9}, {"limit": 0}]),
    "c": ({"limit": 1}, [{}, {"limit": 0}]),
    "d": ({"words": ["a"]}, [{"words": ["a", "b", "c"]}]),
    "e": ({"theName": "abc"}, [{"name": "abc"}, {"theName": ""}, {"theName": "abcd"}, {"theName": "A"}]),
    "h": ({"number": 2.5}, [{"number": 2.3}]),
    "i": ({"most": 4}, [{"other": 4}, {"limit": 4}]),
    "j": ({"limit": 1}, [{"limit": 0}]),
    "l": ({"limit": 5}, [{"limit": 6}]),
    "m": ({"most": 4}, [{}, {"limit": 4}]),
    "n": ({"limit": 50}, [{"limit": 0}, {"limit": 51}]),
    "o": ({"limit": None}, [{"limit": 0}]),
    "s": ({"colour": "blue"}, [{"colour": "green"}]),
    "t": ({"size": 9}, [{"size": 0}, {"size": 10}]),
}
"""Arguments that each function takes, and others that it refuses."""


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "fields.py": SOURCE,
        "fields.mcp.json": json.dumps({"auto_discover": True, "isolation": request.param}),
    }
    hub = Hub(tmp_path_factory.mktemp(f"fields-{request.param}"), files)
    yield hub
    hub.close()


def schema_of(name: str) -> dict[str, Any]:
    tools = {tool.name: tool for tool in discover("python", "fields", SOURCE.encode()).descriptors}
    return dict(tools[name].wire["inputSchema"])


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_that_of_pydantic(name: str) -> None:
    """The same function, read by pydantic: names, limits, defaults, words, examples, what is required."""
    function = Definition(SOURCE.encode(), f"fields-{name}", "fields").function(name).call
    [(key, parameter)] = inspect.signature(function).parameters.items()
    is_alone = parameter.default is parameter.empty
    field: Any = parameter.annotation if is_alone else (parameter.annotation, parameter.default)
    made = create_model("Made", **{key: field}).model_json_schema()
    [(argument, expected)] = made["properties"].items()
    ours = schema_of(name)
    [(shown, found)] = ours["properties"].items()
    assert shown == argument
    assert ours.get("required", []) == made.get("required", [])
    if expected.get("$ref"):
        expected = {**expected, "default": "red", "enum": made["$defs"]["Colour"]["enum"], "type": "string"}
        del expected["$ref"]
    if name != "f":
        expected.pop("title", None)
    assert found == {**expected} or (name == "o" and found["default"] is None and "anyOf" in expected)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_missing_argument_has_the_default_of_its_field(hub: Hub, name: str) -> None:
    result = hub.call("fields", name, {}, "2026-07-28").result
    assert json.loads(result["content"][0]["text"]) == DEFAULTS[name]


@pytest.mark.parametrize("name", GIVEN)
def test_the_limits_of_a_field_hold(hub: Hub, name: str) -> None:
    good, refused = GIVEN[name]
    [value] = good.values()
    result = hub.call("fields", name, good, "2026-07-28").result
    assert list(json.loads(result["content"][0]["text"]).values()) == [value]
    for arguments in refused:
        assert hub.call("fields", name, arguments, "2026-07-28").result["isError"] is True, arguments


def test_a_default_that_a_function_makes_is_made_for_each_call(hub: Hub) -> None:
    source = "from pydantic import Field\n\n\ndef add(words: list[str] = Field([])) -> list[str]:\n"
    source += "    words.append('x')\n    return words\n"
    definition = Definition(source.encode(), "fields-fresh", "fields")
    function = definition.function("add")
    assert [function.call(**function.bind({})) for _ in range(2)] == [["x"], ["x"]]


def test_two_arguments_of_one_name_are_not_listed() -> None:
    source = "from pydantic import Field\n\n\ndef f(a: int, b: int = Field(1, alias='a')): ..."
    [problem] = discover("python", "fields", source.encode()).problems
    assert "two of its arguments have the name 'a'" in problem.reason


def test_a_function_called_field_of_another_module_is_a_default_like_any_other() -> None:
    source = "def Field(value): return value\n\n\ndef f(a: int = Field(1)) -> str: ..."
    tools = {tool.name: tool for tool in discover("python", "fields", source.encode()).descriptors}
    assert tools["f"].wire["inputSchema"]["properties"] == {"a": {"type": "integer"}}
