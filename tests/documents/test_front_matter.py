"""Front matter: a read returns the written values, and a change leaves all other keys unchanged."""

from __future__ import annotations

import string
from datetime import UTC, date, datetime
from typing import Any

import frontmatter
import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from patchbay.documents import front_matter
from patchbay.documents.errors import Unreadable
from patchbay.yaml_core.loading import CoreDumper, CoreLoader

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(
        ["no", "~", "1e3", "0x1f", "1:20", "2024-01-02", "---", "...", "- a", "a: b", "#x", "!t", "&a", "*a"]
    ),
    st.dates(),
    st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)),
    st.binary(max_size=20),
    WORDS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4), st.sets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)
KEYS = st.one_of(st.text(string.ascii_letters, min_size=1, max_size=10), WORDS)
METADATA = st.dictionaries(KEYS, VALUES, max_size=6)
BODIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def same(one: Any, other: Any) -> bool:
    return bool(yaml.dump(one, Dumper=CoreDumper) == yaml.dump(other, Dumper=CoreDumper))


def readable(metadata: Any) -> bool:
    """Whether YAML can hold these values: there are characters that it cannot hold."""
    try:
        return same(yaml.load(yaml.dump(metadata, Dumper=CoreDumper, allow_unicode=True), CoreLoader), metadata)
    except yaml.YAMLError:
        return False


@settings(max_examples=300, deadline=None)
@example({"": None}, "")
@example({"\u3000": None}, "")
@example({"\u30000": None}, "")
@given(METADATA, BODIES)
def test_any_front_matter_is_read_as_it_was_written(metadata: dict[str, Any], body: str) -> None:
    """JANE-9: every kind of value that YAML has, and every character of the body."""
    assume(readable(metadata))
    text = front_matter.new_document_text(metadata, body)
    found = front_matter.split(text)
    assert found.problem is None
    assert same(dict(found.metadata), metadata)
    assert found.body == body
    assert found.opening + found.block + found.closing + found.body == text


@settings(max_examples=300, deadline=None)
@given(METADATA, st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), BODIES, st.booleans())
def test_a_change_keeps_everything_that_it_does_not_name(
    metadata: dict[str, Any], changes: dict[str, Any], body: str, flow: bool
) -> None:
    """JANE-10 (JANE-C4): in blocks with separate lines, and in blocks between braces."""
    assume(readable(metadata) and readable(changes) and readable({**metadata, **changes}))
    block = yaml.safe_dump(metadata, default_flow_style=flow, allow_unicode=True, width=40)
    before = f"---\n{block}---\n{body}"
    assume(front_matter.split(before).problem is None and same(dict(front_matter.split(before).metadata), metadata))
    found = front_matter.split(front_matter.changed(before, changes))
    assert same(dict(found.metadata), {**metadata, **changes})
    assert found.body == body


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_split_without_losing_a_character(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n{text}", f"---\r\n{text}"):
        found = front_matter.split(whole)
        assert found.opening + found.block + found.closing + found.body == whole


BLOCK = """---
# who wrote this
title: "Old"   # in quotes
Date: 2024-01-02
draft: no
list:
  - one   # first
  - {a: 1}
long: >-
  folded
  text
anchor: &x [1, 2]
again: *x

empty:
---

# Body
"""


def test_a_change_edits_only_the_lines_of_its_own_keys() -> None:
    """JANE-10: comments, order, quotes and anchors of the others stay, byte for byte."""
    text = front_matter.changed(BLOCK, {"title": "New", "long": "short", "fresh": ["a"]})
    assert text == (
        BLOCK.replace('"Old"', "New")
        .replace(">-\n  folded\n  text", "short")
        .replace("empty:\n", "empty:\nfresh:\n- a\n")
    )


def test_python_frontmatter_reads_the_same() -> None:
    """The library python-frontmatter reads the written values."""
    metadata = {"title": "A: b", "tags": ["x", "y: z"], "createdAt": "2025-06-30T21:59:05.698Z"}
    post = frontmatter.loads(front_matter.new_document_text(metadata, "# Body\n"))
    assert (post.metadata, post.content) == (metadata, "# Body")
    assert front_matter.split(frontmatter.dumps(post)).metadata == metadata


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_newlines_and_a_byte_order_mark_stay(newline: str, mark: str) -> None:
    text = f"{mark}---\ntitle: a\n---\nbody\n".replace("\n", newline)
    assert front_matter.changed(text, {"title": "b"}) == text.replace("title: a", "title: b")
    bare = f"{mark}body{newline}"
    assert front_matter.changed(bare, {"title": "b"}) == f"{mark}---\ntitle: b\n---\nbody\n".replace("\n", newline)


@pytest.mark.parametrize(
    "block",
    ["a: [", "a: b: c", "\tx: 1", "a: 1\na: {", "? [", "[a]: 1\n? {b: 1}\n: 2", "[" * 30000, "- " * 30000],
)
def test_a_block_that_cannot_be_read_is_shown_and_never_changed(block: str) -> None:
    """JANE-16: also a deeply nested block."""
    text = f"---\n{block}\n---\nbody\n"
    found = front_matter.split(text)
    assert found.problem is not None and "front matter" in found.problem
    assert found.body == "body\n"
    with pytest.raises(Unreadable, match="nothing was changed"):
        front_matter.changed(text, {"title": "x"})
    assert front_matter.changed(text, {}, "other") == text.replace("body\n", "other")


@pytest.mark.parametrize(
    "text",
    [
        "---\n- a list\n---\nx",
        "---\njust text\n---\nx",
        "--- \n",
        "---\na: 1\n",
        "text\n---\na: 1\n---\n",
        "--\na: 1\n--\n",
    ],
)
def test_a_text_that_only_looks_like_front_matter_is_body(text: str) -> None:
    assert front_matter.split(text).body == text and front_matter.split(text).metadata == {}


def test_a_bomb_of_aliases_is_shown_in_part() -> None:
    """A few lines that expand to a billion values use little memory and time."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    found = front_matter.split("---\n" + "\n".join(lines) + "\n---\n")
    assert found.problem is None
    assert len(str(front_matter.to_json_value(found.metadata))) < 100_000


def test_yaml_values_without_a_json_form_are_converted() -> None:
    value = {1: date(2024, 1, 2), "b": b"\x00", "s": {3}, "n": float("nan"), "i": 2**70, "t": (1, None, True)}
    assert front_matter.to_json_value(value) == {
        "1": "2024-01-02",
        "b": "AA==",
        "s": [3],
        "n": "nan",
        "i": str(2**70),
        "t": [1, None, True],
    }


def test_comments_and_blank_lines_behind_a_list_stay() -> None:
    """The parser counts comments and blank lines to the list before them; a change keeps them byte for byte."""
    text = (
        "---\ntags:\n- |\n  b\n  # text\n- a\n\n# who wrote it\nauthor: ann\nowner:\n  name: x\n\n# last\n---\nbody\n"
    )
    changed = front_matter.changed(text, {"tags": ["c"], "owner": "y"})
    assert changed == "---\ntags:\n- c\n\n# who wrote it\nauthor: ann\nowner: y\n\n# last\n---\nbody\n"


TOML = '+++\ntitle = "Räume 🏠" # both\ntags = ["a"]\ndate = 2024-05-01\n\n[extra]\ntitle = "inner"\n+++\n\nbody\n'


def test_front_matter_in_toml_is_read_and_changed_line_by_line() -> None:
    """JANE-9, JANE-10: as Hugo and Zola write it; all other keys stay unchanged."""
    read = front_matter.split(TOML)
    assert (
        read.metadata["title"] == "Räume 🏠" and read.metadata["extra"] == {"title": "inner"} and read.problem is None
    )
    assert read.opening + read.block + read.closing + read.body == TOML and read.body == "\nbody\n"
    text = front_matter.changed(TOML, {"title": "Neu 🎉", "author": 'a "b"', "tags": ["x", "y"]}, "new\n")
    again = front_matter.split(text)
    assert (again.metadata["title"], again.metadata["author"], again.metadata["tags"]) == (
        "Neu 🎉",
        'a "b"',
        ["x", "y"],
    )
    assert again.metadata["extra"] == {"title": "inner"} and "date = 2024-05-01\n" in text and again.body == "new\n"
    assert "Neu 🎉" in text


@pytest.mark.parametrize("block", ["title = 'no end\n", "a = 1\na = 2\n", 'title = """\nof\nlines"""\n'])
def test_toml_that_cannot_be_changed_line_by_line_is_left_alone(block: str) -> None:
    """JANE-16: shown, and never changed."""
    with pytest.raises(Unreadable, match=r"TOML|without losing"):
        front_matter.changed(f"+++\n{block}+++\nbody", {"title": "new"})


def test_front_matter_keeps_emoji() -> None:
    assert "title: Häuser 🏠\n" in front_matter.new_document_text({"title": "Häuser 🏠"}, "")
    assert "title: Fest 🎉\n" in front_matter.changed("---\ntitle: x\n---\nbody", {"title": "Fest 🎉"})


CORE = """---
title: No
tags: [0123, on, 1.5, 12:30:00]
date: 2024-01-02
at: 2024-01-02 03:04:05
yes: y
octal: 0o17
hex: 0x1F
count: 12
ratio: 1e3
zip: 00501
empty:
base: &base {a: 1}
both: {<<: *base, b: 2}
---

Text
"""


def test_front_matter_is_read_by_the_core_schema_of_yaml_1_2() -> None:
    """33.9: texts that YAML 1.1 makes booleans, dates and numbers stay as written."""
    found = front_matter.split(CORE)
    assert found.problem is None
    assert dict(found.metadata) == {
        "title": "No",
        "tags": ["0123", "on", 1.5, "12:30:00"],
        "date": "2024-01-02",
        "at": "2024-01-02 03:04:05",
        "yes": "y",
        "octal": 15,
        "hex": 31,
        "count": 12,
        "ratio": 1000.0,
        "zip": "00501",
        "empty": None,
        "base": {"a": 1},
        "both": {"a": 1, "b": 2},
    }


@pytest.mark.parametrize("text", ["no", "2024-01-02", "0123", "1e3", "0o17", "0x1f", "12:30:00", "~", "<<", "yes", "="])
def test_a_written_text_is_a_text_for_yaml_1_1_and_1_2(text: str) -> None:
    """33.9: other programs read what the hub writes."""
    block = front_matter.split(front_matter.new_document_text({"title": text}, "")).block
    assert yaml.safe_load(block) == yaml.load(block, CoreLoader) == {"title": text}


def test_a_change_of_real_front_matter_keeps_the_other_lines() -> None:
    """33.9: a date without quotes, and a tag with a leading zero."""
    changed = front_matter.changed(CORE, {"title": "off"})
    assert changed == CORE.replace("title: No", "title: 'off'")


def test_repeated_keys_are_a_problem_and_are_never_changed() -> None:
    """33.9: the values of the last ones are shown."""
    text = "---\ntitle: a\nmore: {x: 1, x: 2}\ntitle: b\n---\nbody\n"
    found = front_matter.split(text)
    assert dict(found.metadata) == {"title": "b", "more": {"x": 2}}
    assert found.problem is not None
    assert "the key 'title' of line 1 occurs again in line 3" in found.problem and "'x' of line 2" in found.problem
    with pytest.raises(Unreadable, match="nothing was changed"):
        front_matter.changed(text, {"title": "c"})


def test_a_key_that_a_merge_overrides_is_not_repeated() -> None:
    """33.9: also in a mapping that is merged itself."""
    found = front_matter.split("---\na: &a {k: 1}\nb: &b {<<: *a, k: 2}\n<<: *b\n---\n")
    assert found.problem is None and found.metadata["b"] == {"k": 2} and found.metadata["k"] == 2


NESTED = ["a: " + "[" * 5000, "\n".join(f"k{n}: [[[1]]]" for n in range(3000)), "a: " + "[{x: " * 200]


@pytest.mark.parametrize("block", NESTED, ids=["one", "many", "mixed"])
def test_a_block_that_nests_much_is_refused_before_the_slow_parser_reads_it(block: str) -> None:
    problem = front_matter.split(f"---\n{block}\n---\nbody").problem
    assert problem is not None and ("nests values" in problem or problem.endswith("nests too deeply"))
