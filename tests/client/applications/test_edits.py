"""Edits of a text keep every other character, whatever the formatting; made-up files show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from patchbay.client.applications.edits import Format, insert, remove
from patchbay.client.applications.json_text import JsonText, read_tree
from patchbay.client.applications.toml_text import TomlText
from patchbay.client.applications.yaml_text import YamlText

ENTRY: Mapping[str, Any] = {"type": "http", "url": "http://127.0.0.1:8000/mcp", "args": ["a", "b"]}
NEWLINES = st.sampled_from(["\n", "\r\n"])
NAMES = st.sampled_from(["a", "b-c", "d_e", "with space", 'quo"te', "ünï", "x.y", "#z", "//z"])
VALUES = st.sampled_from(
    ['"text // no comment"', "12", "-1.5e3", "true", "null", "[1, [2], {}]", '{"k": "v"}', '"\\u00e9"']
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """An object with a section `servers` of at least one entry: comments, indentation, commas and line breaks vary."""
    newline = draw(NEWLINES)
    unit = draw(st.sampled_from(["  ", "    ", "\t", "", " "]))
    comment = st.sampled_from(["", "", " // note", " /* note */"])
    is_inline, has_trailing_comma = draw(st.booleans()), draw(st.booleans())

    def members(names: list[str], values: list[str], depth: int) -> str:
        rows = [f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in zip(names, values, strict=True)]
        if is_inline:
            return "{" + ", ".join(rows) + ("," if has_trailing_comma else "") + "}"
        last = "," if has_trailing_comma else ""
        lines = [row + ("," if row is not rows[-1] else last) + draw(comment) for row in rows]
        inside = "".join(newline + unit * (depth + 1) + line for line in lines)
        end = draw(st.sampled_from(["", newline + unit * depth + "// end"]))
        return "{" + inside + end + newline + unit * depth + "}"

    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    servers = members(names, [draw(VALUES) for _ in names], 1)
    before = draw(st.lists(NAMES, max_size=2, unique=True))
    after = draw(st.lists(NAMES.map(lambda name: f"{name}2"), max_size=2, unique=True))
    values = [draw(VALUES) for _ in before] + [servers] + [draw(VALUES) for _ in after]
    head = draw(st.sampled_from(["", f"// head{newline}", newline]))
    return head + members([*before, "servers", *after], values, 0) + draw(st.sampled_from(["", newline]))


TOML_PIECES = st.sampled_from(
    [
        "# a comment",
        "",
        'key = "[servers.ours]"',
        'text = """\n[servers.ours]\n"""',
        "words = [\n  'a', # b\n  '[c]'\n]",
        "rows = [\n[1],\n[2],\n]",
        "[servers.a]\ncommand = 'b'",
        "[servers.a.env]\nX = '1'",
        "[servers.'d e']\nurl = 'c' # d",
        "[[list]]\nx = 1",
        "[other]\ny = { z = [ 1, 2 ] }",
    ]
)


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """A valid file of some of the pieces, each at most once."""
    pieces = draw(st.lists(TOML_PIECES, unique=True, max_size=8))
    tables = [piece for piece in pieces if piece.startswith("[")]
    text = "\n".join([*(piece for piece in pieces if not piece.startswith("[")), *tables])
    newline = draw(NEWLINES)
    return (text + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))).replace("\n", newline)


YAML_ENTRIES = st.sampled_from(
    [
        "a:\n  cmd: b # c",
        "b: {type: builtin}",
        "'c d':\n  list:\n  - 1\n  - 2",
        "e:\n  text: |\n    one\n\n    two",
        "f: plain text\n  in two lines",
        "# a comment\ng:\n  h:",
    ]
)


@st.composite
def yaml_texts(draw: st.DrawFn) -> str:
    """A file with a section `servers` of at least one entry; a block of text at its end has a line break."""
    entries = draw(st.lists(YAML_ENTRIES, min_size=1, max_size=4, unique=True))
    indent = draw(st.sampled_from([" ", "  ", "    "]))
    section = "\n".join(f"{indent}{line}" if line else "" for entry in entries for line in entry.split("\n"))
    before, after = (
        draw(st.sampled_from(["", "A: 1\n\n", "# top\n"])),
        draw(st.sampled_from(["", "\n", "\n\n# c\nZ: 1\n", "\nZ: 1"])),
    )
    assume(after or not section.endswith("two"))
    return (before + "servers:\n" + section + after).replace("\n", draw(NEWLINES))


def check_exact(form: Format, text: str) -> None:
    before = form.parse(text)
    after = insert(form, text, "servers", "ours", ENTRY, "file")
    assert form.parse(after) == before | {"servers": {**before.get("servers", {}), "ours": ENTRY}}
    assert remove(form, after, "servers", "ours", "file") == text
    second = insert(form, after, "servers", "second", ENTRY, "file")
    assert remove(form, second, "servers", "ours", "file") == insert(form, text, "servers", "second", ENTRY, "file")


@settings(deadline=None)
@given(json_texts())
def test_an_entry_of_a_json_file_comes_and_goes_without_a_trace(text: str) -> None:
    check_exact(JsonText(), text)


@settings(deadline=None)
@given(toml_texts())
def test_an_entry_of_a_toml_file_comes_and_goes_without_a_trace(text: str) -> None:
    check_exact(TomlText(), text)


@settings(deadline=None)
@given(yaml_texts())
def test_an_entry_of_a_yaml_file_comes_and_goes_without_a_trace(text: str) -> None:
    check_exact(YamlText(), text)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_strict_json_reads_as_by_the_standard_library(value: Any) -> None:
    assert read_tree(json.dumps(value)).value == value
    assert read_tree(json.dumps(value, indent=3, ensure_ascii=False)).value == value


def test_a_strict_file_stays_strict() -> None:
    for text in ("{}", '{"servers": {}}', '{"servers": {"a": 1}}', '{\n "servers": {\n  "a": 1\n }\n}'):
        after = insert(JsonText(), text, "servers", "ours", ENTRY, "file")
        assert json.loads(after)["servers"]["ours"] == ENTRY


def test_an_entry_has_the_indentation_of_its_neighbours() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {}\n\t}\n}\n'
    after = insert(JsonText(), text, "servers", "ours", {"url": "u"}, "file")
    assert after == '{\n\t"servers": {\n\t\t"a": {},\n\t\t"ours": {\n\t\t\t"url": "u"\n\t\t}\n\t}\n}\n'
