"""What a script can and cannot do in Python is what docs/scripts.md says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.hubs import Hub
from tests.scripting.hubs import failure, script, scripted_hub, value

WORKS = {
    "a decorator": "def same(f):\n    return f\n\n\n@same\ndef g(*args, **given):\n    return [*args, given]\n\n\ng(1)",
    "a class": "class A:\n    def f(self) -> int:\n        return 1\n\n\nA().f()",
    "a data class": "from dataclasses import dataclass\n\n\n@dataclass\nclass A:\n    x: int\n\n\nA(1).x",
    "statements": "match 1:\n    case 1:\n        found = 2\nassert found\ntry:\n    raise ValueError('x') from None\n"
    "except ValueError as problem:\n    found = str(problem)\nfound",
    "nonlocal": "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    g()\n    return n\n\n\nf()",
    "expressions": "a, *rest = [3, 2, 1][::-1]\n[f'{(y := 1.5):.2f}', '%d' % 3, '{}'.format(4), sum(x for x in rest)]",
    "a large integer, a set and a tuple": "[2**200, {1}, (1, 2)]",
}
DOES_NOT = {
    "a base class": ("class E(Exception):\n    pass\n", "class inheritance"),
    "a property": ("class A:\n    @property\n    def x(self):\n        return 1\n", "method decorators"),
    "yield": ("def g():\n    yield 1\n", "yield"),
    "del": ("x = {1: 2}\ndel x[1]\n", "del"),
    "except*": ("try:\n    pass\nexcept* ValueError:\n    pass\n", "exception groups"),
    "a type alias": ("type X = int\n", "type aliases"),
    "an import of all": ("from math import *\n", "Wildcard imports"),
    "getattr": ("getattr('a', 'upper')", "getattr"),
    "__class__": ("[].__class__", "__class__"),
    "complex": ("1j", "complex"),
    "bytes": ("b'a'", "bytes"),
}
_ROW = re.compile(r"\| Modules \| ([^|]*) \| ([^|]*) \|")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = scripted_hub(Path(tmp_path_factory.mktemp("python")))
    yield found
    found.close()


@pytest.mark.parametrize("code", WORKS.values(), ids=WORKS)
def test_what_works(hub: Hub, code: str) -> None:
    assert value(script(hub, "git", code)) is not None


@pytest.mark.parametrize(("code", "reason"), DOES_NOT.values(), ids=DOES_NOT)
def test_what_does_not_work_is_an_error_that_names_it(hub: Hub, code: str, reason: str) -> None:
    assert reason in failure(script(hub, "git", code))


def test_the_modules_are_those_of_the_page(hub: Hub) -> None:
    row = _ROW.search((ROOT / "docs/scripts.md").read_text())
    assert row is not None
    known, unknown = (re.findall("`([a-z0-9]+)`", each) for each in row.groups())
    assert len(known) > 10 and len(unknown) > 5
    for name in known:
        assert value(script(hub, "git", f"import {name}\n1")) == 1, name
    for name in unknown:
        assert name in failure(script(hub, "git", f"import {name}\n1")), name
