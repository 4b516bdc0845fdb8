"""Arguments are converted as annotations require."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from patchbay.errors import ToolFailed
from patchbay.events import Data, Failed
from patchbay.kinds.python.arguments import Function, is_plain
from tests.kinds.calls import call_of, events, python

TYPES = """
import dataclasses, enum, typing
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union
from uuid import UUID
from pydantic import BaseModel, Field

class Colour(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Point:
    x: int
    when: date = date(2000, 1, 1)
class Movie(TypedDict):
    name: str
    seen: NotRequired[date]
class Shelf(TypedDict, total=False):
    movies: list[Movie]
class Person(BaseModel):
    name: str
    born: date
"""

CASES = [
    ("datetime", "2026-07-28T12:00:00Z", "datetime.datetime(2026, 7, 28, 12, 0, tzinfo=TzInfo(0))"),
    ("date", "2026-07-28", "datetime.date(2026, 7, 28)"),
    ("timedelta", "PT5S", "datetime.timedelta(seconds=5)"),
    ("UUID", "00000000-0000-0000-0000-000000000001", "UUID('00000000-0000-0000-0000-000000000001')"),
    ("Colour", "red", "<Colour.RED: 'red'>"),
    ("Point", {"x": 1, "when": "2026-07-28"}, "Point(x=1, when=datetime.date(2026, 7, 28))"),
    ("Movie", {"name": "M", "seen": "2026-07-28"}, "{'name': 'M', 'seen': datetime.date(2026, 7, 28)}"),
    ("Shelf", {"movies": [{"name": "M"}]}, "{'movies': [{'name': 'M'}]}"),
    ("list[Movie]", [{"name": "M"}], "[{'name': 'M'}]"),
    ("Person", {"name": "Ada", "born": "1815-12-10"}, "Person(name='Ada', born=datetime.date(1815, 12, 10))"),
    ("set[int]", [1, 1], "{1}"),
    ("frozenset[str]", ["a"], "frozenset({'a'})"),
    ("tuple[int, str]", [1, "a"], "(1, 'a')"),
    ("tuple[int, ...]", [1, 2], "(1, 2)"),
    ("Path", "a/b", "PosixPath('a/b')"),
    ("Decimal", "1.10", "Decimal('1.10')"),
    ("bytes", "//4=", r"b'\xff\xfe'"),
    ("list[bytes]", ["YQ=="], "[b'a']"),
    ("Annotated[int, Field(ge=1)]", 3, "3"),
    ("Annotated[date, 'a day']", "2026-07-28", "datetime.date(2026, 7, 28)"),
    ("Optional[date]", None, "None"),
    ("date | None", "2026-07-28", "datetime.date(2026, 7, 28)"),
    ("Union[Movie, int]", {"name": "M"}, "{'name': 'M'}"),
    ("dict[str, date]", {"a": "2026-07-28"}, "{'a': datetime.date(2026, 7, 28)}"),
    ("dict[int, str]", {"1": "a"}, "{1: 'a'}"),
    ("Sequence[int]", [1], "[1]"),
    ("Literal['a', 1]", "a", "'a'"),
    ("int", 3, "3"),
    ("float", 3, "3"),
    ("str", "3", "'3'"),
    ("list[dict[str, int | None]]", [{"a": None}], "[{'a': None}]"),
    ("Any", {"a": [1]}, "{'a': [1]}"),
]


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize(("annotation", "given", "expected"), CASES)
def test_each_type_arrives_as_annotated(annotation: str, given: Any, expected: str, future: str) -> None:
    handler = python(f"{future}{TYPES}\ndef main(value: {annotation}): return {{'got': repr(value)}}")
    assert events(handler, call_of({"value": given}))[0] == Data({"got": expected})


@pytest.mark.parametrize(
    ("annotation", "given", "words"),
    [
        ("date", "yesterday", "argument 'value': input should be a valid date"),
        ("Colour", "blue", "argument 'value': input should be 'red'; got 'blue'"),
        ("Point", {"x": "a"}, "argument 'value'['x']: input should be a valid integer"),
        ("Movie", {}, "argument 'value'['name']: field required"),
        ("UUID", "7", "argument 'value': input should be a valid UUID"),
        ("bytes", "?", "argument 'value': data should be valid base64"),
        ("set[int]", ["a"], "argument 'value'[0]: input should be a valid integer"),
        ("Annotated[int, Field(ge=1)]", 0, "argument 'value': input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_argument_is_reported_with_its_place_and_the_expected_type(
    annotation: str, given: Any, words: str
) -> None:
    (failed,) = events(python(f"{TYPES}\ndef main(value: {annotation}): ..."), call_of({"value": given}))
    assert isinstance(failed, Failed)
    assert failed.message.startswith(words)


def test_a_default_is_not_converted() -> None:
    source = f"{TYPES}\ndef main(day: date = date(2026, 7, 28), colour: Colour = Colour.RED): return [day, colour]"
    assert events(python(source), call_of())[0] == Data(["2026-07-28", "red"])


@pytest.mark.parametrize(
    ("hint", "plain"),
    [(str, True), (list[int], True), (int | None, True), (dict[str, Any], True), (set[int], False), (bytes, False)],
)
def test_plain_json_types_are_passed_untouched(hint: Any, plain: bool) -> None:
    assert is_plain(hint) is plain


def test_an_annotation_that_cannot_be_resolved_leaves_the_others_working() -> None:
    source = """
    from __future__ import annotations
    from datetime import date
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        import nowhere
    def main(day: date, thing: nowhere.Thing): return [repr(day), thing]
    """
    found = events(python(source), call_of({"day": "2026-07-28", "thing": {"a": 1}}))
    assert found[0] == Data(["datetime.date(2026, 7, 28)", {"a": 1}])


def test_an_unsupported_type_leaves_the_value_unchanged() -> None:
    source = "class Own: ...\ndef main(thing: Own): return thing"
    assert events(python(source), call_of({"thing": {"a": 1}}))[0] == Data({"a": 1})


def test_a_decorated_function_shows_its_own_parameters() -> None:
    source = """
    import functools
    from datetime import date
    def twice(function):
        @functools.wraps(function)
        def inner(*args, **kwargs): return [function(*args, **kwargs)] * 2
        return inner
    @twice
    def main(day: date): return day.year
    """
    assert events(python(source), call_of({"day": "2026-07-28"}))[0] == Data([2026, 2026])


def test_open_keywords_take_any_argument() -> None:
    assert events(python("def main(a, **rest): return rest"), call_of({"a": 1, "b": 2}))[0] == Data({"b": 2})


def positional(a: int, /) -> None: ...


@pytest.mark.parametrize(("function", "words"), [(positional, "positional-only"), (type, "named arguments")])
def test_a_function_without_keyword_parameters_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        Function("f", function)
