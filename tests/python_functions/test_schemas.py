"""Annotations to JSON Schema 2020-12: a table of results, and properties of all of them."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patchbay.kinds.discovery import discover

MODULE = '''
from __future__ import annotations
import annotated_types, collections, collections.abc, dataclasses, datetime, enum, pathlib, typing, typing as t, uuid
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from decimal import Decimal
from typing import *
from typing_extensions import Doc
import pydantic
from pydantic import BaseModel, Field, StringConstraints

class Colour(enum.Enum):
    """What it looks like."""
    RED = "r"
    BLUE = "b"
    _hidden = 1
    def paint(self): ...
class Level(enum.IntEnum):
    LOW = enum.auto()
    MIDDLE = 10
    HIGH = enum.auto()
class Word(enum.StrEnum):
    YES = enum.auto()
    NO = enum.auto()
class Parent(str, enum.Enum): ...
class Child(Parent):
    ONE = "1"
class Odd(enum.Enum):
    A = object()

Numbers = list[int]
Alias: TypeAlias = "Numbers | None"
UserId = NewType("UserId", int)
T = TypeVar("T")
Modes = Literal["r", "w"]
LIMIT = Field(ge=0)
Json = Union[None, bool, float, str, list["Json"], dict[str, "Json"]]
Endless = "Endless | int"

class Movie(TypedDict):
    """A film."""
    title: str
    year: NotRequired[int]
class Loose(TypedDict, total=False):
    name: Required[str]
    note: str
class More(Loose):
    extra: int
Called = TypedDict("Called", {"from": str, "to": "int"}, total=False)
class Point(NamedTuple):
    x: int
    y: int = 0
@dataclass
class Place:
    """Somewhere.

    Attributes:
        name: What it is called.
    """
    name: str
    kind: ClassVar[int] = 1
    _: KW_ONLY
    tags: list[str] = field(default_factory=list)
    made: int = field(init=False)
    seed: InitVar[int] = 3
    """Where chance begins."""
@dataclasses.dataclass(frozen=True)
class Town(Place):
    people: int = None
class Person(BaseModel):
    name: str = Field(..., min_length=1, description="Who.", alias="fullName")
    age: int = Field(0, ge=0, le=150)
    _secret: int = 1
class Node(BaseModel):
    value: int
    next: Node | None = None
class Plain:
    x: int
class Circle(Circle): ...
'''

TEXT, INTEGER, NUMBER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}
DATE_TIME = {"type": "string", "format": "date-time"}
INTEGERS = {"type": "array", "items": INTEGER}
PAIR = {"type": "array", "prefixItems": [INTEGER, TEXT], "items": False, "minItems": 2, "maxItems": 2}
MOVIE = {
    "type": "object",
    "properties": {"title": TEXT, "year": INTEGER},
    "required": ["title"],
    "description": "A film.",
}
PLACE = {
    "name": {"type": "string", "description": "What it is called."},
    "tags": {"type": "array", "items": TEXT},
    "seed": {"type": "integer", "description": "Where chance begins.", "default": 3},
}
PERSON = {
    "type": "object",
    "properties": {
        "fullName": {"type": "string", "minLength": 1, "description": "Who."},
        "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 0},
    },
    "required": ["fullName"],
}


def schema_of(annotation: str, returned: bool = False) -> dict[str, Any]:
    """Return the input schema of a function with one parameter `x` of a type, or its output schema."""
    source = f"{MODULE}\ndef f() -> {annotation}: ...\n" if returned else f"{MODULE}\ndef f(x: {annotation}): ...\n"
    (only,) = discover("python", "srv", source.encode()).descriptors
    schema: dict[str, Any] = only.wire["outputSchema" if returned else "inputSchema"]
    Draft202012Validator.check_schema(schema)
    return schema


TABLE: list[tuple[str, dict[str, Any]]] = [
    # Plain values.
    ("str", TEXT),
    ("int", INTEGER),
    ("float", NUMBER),
    ("bool", {"type": "boolean"}),
    ("None", NULL),
    ("bytes", {"type": "string", "contentEncoding": "base64"}),
    ("datetime.datetime", DATE_TIME),
    ("dt.datetime", DATE_TIME),
    ("dt.date", {"type": "string", "format": "date"}),
    ("datetime.time", {"type": "string", "format": "time"}),
    ("uuid.UUID", {"type": "string", "format": "uuid"}),
    ("pathlib.Path", {"type": "string", "format": "path"}),
    ("Decimal", {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]}),
    # Any value.
    ("Any", {}),
    ("object", {}),
    ("T", {}),
    ("Unheard", {}),
    ("Callable[[int], str]", {}),
    ("Plain", {}),
    ("1 + 1", {}),
    ("'not an expression ('", {}),
    # Containers.
    ("list", {"type": "array"}),
    ("list[Any]", {"type": "array"}),
    ("list[int]", INTEGERS),
    ("t.List['int']", INTEGERS),
    ("Sequence[int]", INTEGERS),
    ("collections.abc.Iterable[int]", INTEGERS),
    ("collections.deque[int]", INTEGERS),
    ("set[int]", {**INTEGERS, "uniqueItems": True}),
    ("FrozenSet[int]", {**INTEGERS, "uniqueItems": True}),
    ("dict", {"type": "object"}),
    ("dict[str, Any]", {"type": "object"}),
    ("Mapping[str, int]", {"type": "object", "additionalProperties": INTEGER}),
    ("collections.Counter[str]", {"type": "object", "additionalProperties": INTEGER}),
    (
        "dict[Modes, int]",
        {"type": "object", "propertyNames": {"type": "string", "enum": ["r", "w"]}, "additionalProperties": INTEGER},
    ),
    ("tuple", {"type": "array"}),
    ("tuple[int, str]", PAIR),
    ("tuple[int, ...]", INTEGERS),
    ("tuple[Any, ...]", {"type": "array"}),
    ("tuple[()]", {"type": "array", "maxItems": 0}),
    ("tuple[int, *Rest]", {"type": "array"}),
    # Alternatives.
    ("Optional[int]", {"anyOf": [INTEGER, NULL]}),
    ("int | None", {"anyOf": [INTEGER, NULL]}),
    ("Union[int, 'str', None]", {"anyOf": [INTEGER, TEXT, NULL]}),
    ("int | (str | None)", {"anyOf": [INTEGER, TEXT, NULL]}),
    ("Union[int]", INTEGER),
    ("int | int", INTEGER),
    ("int | Any", {}),
    ("int | T", {}),
    ("Literal['a', 'b', 'a']", {"type": "string", "enum": ["a", "b"]}),
    ("Literal['a']", {"type": "string", "const": "a"}),
    ("Literal[1, True, None]", {"enum": [1, True, None]}),
    ("Literal[-1, Colour.RED]", {"enum": [-1, "r"]}),
    ("Literal[Modes, 'x']", {"type": "string", "enum": ["r", "w", "x"]}),
    ("Literal[b'x']", {}),
    ("Colour", {"type": "string", "enum": ["r", "b"], "description": "What it looks like."}),
    ("Level", {"type": "integer", "enum": [1, 10, 11]}),
    ("Word", {"type": "string", "enum": ["yes", "no"]}),
    ("Child", {"type": "string", "const": "1"}),
    ("Odd", {}),
    # Descriptions and limits.
    ("Annotated[str, 'city']", {"type": "string", "description": "city"}),
    ("Annotated[str, Doc('A city.')]", {"type": "string", "description": "A city."}),
    (
        "Annotated[int, Field(ge=1, lt=9, multiple_of=2, description='Even.')]",
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2, "description": "Even."},
    ),
    (
        "Annotated[int, annotated_types.Gt(0), annotated_types.Le(le=5)]",
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 5},
    ),
    ("Annotated[list[int], annotated_types.Len(1, 3)]", {**INTEGERS, "minItems": 1, "maxItems": 3}),
    ("Annotated[str | None, Field(max_length=3)]", {"anyOf": [TEXT, NULL], "maxLength": 3}),
    ("Annotated[dict, Field(min_length=1)]", {"type": "object", "minProperties": 1}),
    ("Annotated[str, StringConstraints(pattern='^a+$')]", {"type": "string", "pattern": "^a+$"}),
    ("Annotated[int, LIMIT]", {"type": "integer", "minimum": 0}),
    ("Annotated[int, Field(ge='a', le=limit()), unknown(1)]", INTEGER),
    ("pydantic.PositiveInt", {"type": "integer", "exclusiveMinimum": 0}),
    # Names of the module.
    ("Numbers", INTEGERS),
    ("Alias", {"anyOf": [INTEGERS, NULL]}),
    ("'Alias'", {"anyOf": [INTEGERS, NULL]}),
    ("UserId", INTEGER),
    ("Endless", {}),
    ("Circle", {}),
    ("Movie", MOVIE),
    ("list[Movie]", {"type": "array", "items": MOVIE}),
    ("Loose", {"type": "object", "properties": {"name": TEXT, "note": TEXT}, "required": ["name"]}),
    (
        "More",
        {"type": "object", "properties": {"name": TEXT, "note": TEXT, "extra": INTEGER}, "required": ["name", "extra"]},
    ),
    ("Called", {"type": "object", "properties": {"from": TEXT, "to": INTEGER}}),
    (
        "Point",
        {
            "type": "array",
            "prefixItems": [INTEGER, {"type": "integer", "default": 0}],
            "items": False,
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    (
        "Place",
        {
            "type": "object",
            "properties": PLACE,
            "required": ["name"],
            "additionalProperties": False,
            "description": "Somewhere.",
        },
    ),
    (
        "Town",
        {
            "type": "object",
            "properties": {**PLACE, "people": {"anyOf": [INTEGER, NULL], "default": None}},
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
    ("Person", PERSON),
]


@pytest.mark.parametrize(("annotation", "expected"), TABLE, ids=[annotation for annotation, _ in TABLE])
def test_an_annotation_becomes_its_schema(annotation: str, expected: dict[str, Any]) -> None:
    """T11.6, VWR-22."""
    schema = schema_of(annotation)
    assert schema["properties"]["x"] == expected
    assert "$defs" not in schema


def test_a_recursive_class_is_shared_and_checks_values() -> None:
    """T13.5: nested arguments of any depth."""
    schema = schema_of("Node")
    assert schema["properties"]["x"] == {"$ref": "#/$defs/Node"}
    check = jsonschema_rs.Draft202012Validator(schema)
    assert check.is_valid({"x": {"value": 1, "next": {"value": 2, "next": None}}})
    assert not check.is_valid({"x": {"value": 1, "next": {"value": "2"}}})


def test_a_recursive_alias_is_shared_and_checks_values() -> None:
    check = jsonschema_rs.Draft202012Validator(schema_of("dict[str, Json]"))
    assert check.is_valid({"x": {"a": [1, {"b": [None]}]}})
    assert not check.is_valid({"x": [1]})


def test_a_recursive_result_shows_its_type_at_the_root() -> None:
    """Older revisions expect an object there, and do not follow references."""
    schema = schema_of("Node", returned=True)
    assert (schema["type"], list(schema["$defs"])) == ("object", ["Node"])
    check = jsonschema_rs.Draft202012Validator(schema)
    assert check.is_valid({"value": 1, "next": {"value": 2}})
    assert not check.is_valid({"value": 1, "next": {}})


def test_a_dataclass_is_open_in_a_result_and_closed_in_an_argument() -> None:
    """A result may be of a subclass with more fields; an argument with an unknown field cannot be constructed."""
    assert schema_of("Place")["properties"]["x"]["additionalProperties"] is False
    assert "additionalProperties" not in schema_of("Place", returned=True)


def test_a_class_that_is_used_often_is_described_once() -> None:
    schema = schema_of("tuple[Person, Person, list[Person], dict[str, Town], Town]")
    assert list(schema["$defs"]) == ["Town"]
    wide = "\n".join(f"    f{n}: int" for n in range(20))
    source = (
        f"from dataclasses import dataclass\n@dataclass\nclass Große:\n{wide}\ndef f(x: Große, y: list[Große]): ..."
    )
    (only,) = discover("python", "srv", source.encode()).descriptors
    assert only.wire["inputSchema"]["properties"]["x"] == {"$ref": "#/$defs/Gro%C3%9Fe"}
    assert not jsonschema_rs.Draft202012Validator(only.wire["inputSchema"]).is_valid({"x": {"f0": 1}, "y": []})


@pytest.mark.parametrize(
    "source",
    [
        "A0 = tuple[int, int]\n" + "".join(f"A{n} = tuple[A{n - 1}, A{n - 1}]\n" for n in range(1, 60)) + "X = A59",
        "class X0: ...\n" + "".join(f"class X{n}(X{n - 1}): x: int\n" for n in range(1, 2_000)) + "X = X1999",
        "from typing import TypedDict\n"
        + "".join(f"class X{n}(TypedDict):\n    a: 'X{n + 1}'\n    b: 'X{n + 2}'\n" for n in range(300))
        + "X = X0",
        "X = " + "list[" * 150 + "int" + "]" * 150,
        "X = 'X'",
        "A = 'B'\nB = 'A | None'\nX = A",
        "class X(Y): ...\nclass Y(X): ...",
    ],
)
def test_types_made_to_explode_give_a_small_valid_schema(source: str) -> None:
    (only,) = discover("python", "srv", f"{source}\ndef f(x: X) -> X: ...\n".encode()).descriptors
    Draft202012Validator.check_schema(only.wire["inputSchema"])
    assert len(str(only.wire)) < 100_000
    jsonschema_rs.Draft202012Validator(only.wire["inputSchema"]).is_valid({"x": [1]})


SIMPLE = st.sampled_from([annotation for annotation, _ in TABLE] + ["Node", "Json", "Town"])
ANNOTATIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("Optional[{}]".format),
        inner.map("Annotated[{}, Field(max_length=2, ge=0, description='d')]".format),
        st.tuples(inner, inner).map(lambda two: f"tuple[{two[0]}, {two[1]}]"),
        st.tuples(inner, inner).map(lambda two: f"dict[{two[0]}, {two[1]}]"),
        st.tuples(inner, inner).map(lambda two: f"Union[{two[0]}, {two[1]}]"),
    ),
    max_leaves=6,
)


@given(ANNOTATIONS, st.booleans())
def test_every_schema_is_valid_json_schema_and_can_be_compiled(annotation: str, optional: bool) -> None:
    """T4.6: dialect 2020-12, root object, no reference that leads nowhere."""
    default = " = None" if optional else ""
    source = f"{MODULE}\ndef f(x: {annotation}{default}) -> {annotation}: ...\n"
    found = discover("python", "srv", source.encode())
    assert found.problems == ()
    wire = found.descriptors[0].wire
    assert wire["inputSchema"]["type"] == "object"
    for schema in (wire["inputSchema"], wire.get("outputSchema", {})):
        Draft202012Validator.check_schema(schema)
        jsonschema_rs.Draft202012Validator(schema).is_valid({"x": [None, {"a": 1}]})
    if optional:
        assert jsonschema_rs.Draft202012Validator(wire["inputSchema"]).is_valid({"x": None})
