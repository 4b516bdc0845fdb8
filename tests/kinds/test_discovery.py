"""Discovery refuses broken, hostile and endless definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.descriptors import Discovery
from patchbay.errors import ConfigError
from patchbay.kinds.discovery import MAX_DEFINITION_BYTES, discover


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        (b"x = 1\ndef f(:\n", 2, "not valid Python: invalid syntax in 'def f\\(:'$"),
        (b"x = 1\n  y = " + b"2" * 100, 2, "unexpected indent in 'y = 2{76}'$"),
        (b"x = 1 \x1b[31m", 1, r"in 'x = 1 \\x1b\[31m'$"),
        (b"def f(a, a): ...", 1, "duplicate argument"),
        (b"\nreturn 1", 2, "outside function"),
        (b"x = 1\n# caf\xe9\n", 2, "save it as UTF-8"),
        (b"x = 1\n\n\0", 3, "NUL"),
        (b"x = " + b"(" * 1000 + b")" * 1000, 1, "parentheses"),
        (b"x = " + b"-" * 100_000 + b"1", 1, "nested too deeply"),
        (b"x = " + b"1 + " * 100_000 + b"1", 1, "nested too deeply"),
        (b"x = a" + b".b" * 100_000, 1, "nested too deeply"),
        (b"if a: pass\n" + b"elif b: pass\n" * 5_000, 1, "nested too deeply"),
        (b"x = " + b"1" * 5_000, 1, "digits"),
        (b"#" * (MAX_DEFINITION_BYTES + 1), 1, "at most"),
    ],
)
def test_a_definition_that_cannot_be_read_is_refused_with_its_line(source: bytes, line: int, said: str) -> None:
    """Hostile source is an error with a place, never a crash."""
    with pytest.raises(ConfigError, match=said) as refused:
        discover("python", "srv", source)
    assert (refused.value.where, refused.value.path) == ("srv", f"line {line}")


@pytest.mark.parametrize(
    "source",
    [
        "from typing import Literal\nX = Literal['" + "a" * 400_000 + "']\n",
        "import enum\nclass X(enum.Enum):\n" + "".join(f"    A{n} = {n}\n" for n in range(9_000)),
    ],
)
def test_a_small_definition_cannot_make_endless_lists(source: str) -> None:
    many = "".join(f"def f{n}(x: X): ...\n" for n in range(100))
    read = discover("python", "srv", (source + many).encode())
    assert len(read.descriptors) + len(read.problems) == 100
    assert 0 < len(read.descriptors) < 50
    assert all("too large together" in problem.reason for problem in read.problems)


def test_an_unknown_kind_is_refused_and_a_static_server_has_nothing_to_find() -> None:
    assert discover("static", "srv", b"\0") == Discovery()
    with pytest.raises(ConfigError, match="expected python, shell or static"):
        discover("cobol", "srv", b"")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_either_read_or_refused(source: bytes) -> None:
    try:
        discover("python", "srv", source)
    except ConfigError as refused:
        assert refused.path.startswith("line ")


@pytest.mark.parametrize(
    "line", ["# -*- coding: foobar -*-", "#!/usr/bin/python\n# coding: latin-1", "# coding: ascii"]
)
def test_a_coding_line_other_than_utf_8_is_refused(line: str) -> None:
    """Python would read another text than the hub, or fail: one such file prevented the start of the whole hub."""
    source = f"{line}\ndef hello() -> str:\n    return 'é'\n"
    with pytest.raises(ConfigError, match="its coding line names another"):
        discover("python", "hello", source.encode())


@pytest.mark.parametrize("line", ["# -*- coding: utf-8 -*-", "# coding: latin-1", ""])
def test_a_coding_line_with_the_same_text_is_accepted(line: str) -> None:
    assert discover("python", "hello", f"{line}\ndef hello() -> str: ...\n".encode()).descriptors
