"""Names in annotations that a definition does not have are problems with their line (issue 47 item 7)."""

from __future__ import annotations

import sys

import pytest

from patchbay.descriptors import Problem
from patchbay.kinds.discovery import discover


def problems(source: str) -> list[Problem]:
    return list(discover("python", "notes", source.encode()).problems)


EAGER = sys.version_info < (3, 14)
"""Whether Python evaluates annotations when it loads a module (PEP 649)."""

PEP_695 = ["def f[T](a: T) -> T: ...", "type P = int\n\ndef f(a: P): ...", "class C[T]:\n    a: T\n"]
"""Type parameters and type statements, which bind names since Python 3.12."""

WRONG = {
    "a parameter": ("def f(a: int, rows: lst[dict]) -> str: ...", 1, "'lst'", True),
    "a result": ("import json\n\ndef f() -> strr: ...", 3, "'strr'", True),
    "a part of a union": ("def f(a: int | nope = 1): ...", 1, "'nope'", True),
    "a part of a generic type": ("def f(a: dict[str, list[nope]]): ...", 1, "'nope'", True),
    "the base of an attribute": ("def f(a: dt.date): ...", 1, "'dt'", True),
    "a private function": ("def _f(a: nope): ...", 1, "'nope'", True),
    "a method": ("class P:\n    def f(self, a: nope): ...", 2, "'nope'", True),
    "a field of a class": ("class P:\n    a: nope = 1", 2, "'nope'", True),
    "a name of the module": ("a: nope = 1", 1, "'nope'", True),
    "a function in a block": ("if True:\n    def f(a: nope): ...", 2, "'nope'", True),
    "a starred parameter": ("def _f(*a: nope, **b: int): ...", 1, "'nope'", True),
    "a name of typing": ("def f(a: Optional[int]): ...", 1, "from typing import Optional", True),
}
WRONG_AT_ONCE = {
    "a name of type checkers": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B\ndef f(b: B): ...",
        4,
        "only a type checker imports",
        True,
    ),
    "a class that comes later": ("def f(a: P): ...\n\nclass P: ...", 1, "defined later, in line 3", True),
}
WRONG |= WRONG_AT_ONCE if EAGER else {}
WRONG |= {
    "a text": ("def f(a: 'nope'): ...", 1, "'nope'", False),
    "a text in a type": ("def f(a: list['nope']): ...", 1, "'nope'", False),
    "postponed annotations": ("from __future__ import annotations\ndef f(a: nope): ...", 2, "'nope'", False),
}


@pytest.mark.parametrize(("source", "line", "words", "is_fault"), WRONG.values(), ids=WRONG.keys())
def test_a_name_that_cannot_be_resolved_is_a_problem_with_its_line(
    source: str, line: int, words: str, is_fault: bool
) -> None:
    found = [one for one in problems(source) if "annotation" in one.reason]
    assert [(one.line, one.is_fault) for one in found] == [(line, is_fault and EAGER)]
    assert words in found[0].reason


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: int, b: 'P', c: list['P'] = []) -> 'dict[str, P]': ...\n\nclass P: ...",
        "class P: ...\n\ndef f(a: P | None): ...",
        "from typing import *\n\ndef f(a: Optional[int]): ...",
        "globals()['P'] = int\n\ndef f(a: P): ...",
        "import datetime as dt\n\ndef f(a: dt.date): ...",
        "from typing import Literal\n\ndef f(a: Literal['nope', 'other']): ...",
        "from typing import Annotated\n\ndef f(a: Annotated[str, 'nope', len]): ...",
        "import typing as t\n\ndef f(a: t.Literal['nope']): ...",
        "try:\n    import a_b as c\nexcept ImportError:\n    c = None\n\ndef f(a: c): ...",
        "for kind in (int, str):\n    pass\n\ndef f(a: kind): ...",
        "with open('/dev/null') as stream:\n    P = int\n\ndef f(a: P): ...",
        "if (P := int):\n    pass\n\ndef f(a: P): ...",
        "def make():\n    global P\n    P = int\n\nmake()\n\ndef f(a: P): ...",
        "class P:\n    Kind = int\n\n    def f(self, a: Kind) -> int: ...",
        "from __future__ import annotations\n\ndef f(a: P): ...\n\nclass P: ...",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B\ndef f(b: 'B'): ...",
        "match 1:\n    case P:\n        pass\n\ndef f(a: P): ...",
        "def f(a: ..., b: None, c: 'list[int] | None'): ...",
        "def f(a: 'not an expression ('): ...",
        *(PEP_695 if sys.version_info >= (3, 12) else ()),
    ],
)
def test_a_name_that_is_bound_is_none(source: str) -> None:
    assert [one for one in problems(source) if "annotation" in one.reason] == []


def test_the_sentence_names_the_nearest_name() -> None:
    [found] = problems("def total(rows: lst[dict]) -> str: ...")
    assert found.where == "total"
    sentence = "the annotation of rows in total names 'lst', which is not defined (did you mean 'list'?)"
    assert found.reason.startswith(sentence)


def test_a_tool_with_such_an_annotation_is_still_listed() -> None:
    """The other problems, and the tools, stay as they are."""
    found = discover("python", "notes", b"def total(rows: 'lst[dict]', size: int = 1) -> str: ...")
    [tool] = found.descriptors
    assert tool.wire["inputSchema"]["properties"] == {"rows": {}, "size": {"type": "integer", "default": 1}}
