"""JSON with comments and trailing commas (JSONC), as VS Code and Zed read it: a tree with positions, and exact edits.

An insertion repeats the style of its neighbours and adds a trailing comma only where the file has one, so that a strict
JSON file stays strict. Source of the grammar: RFC 8259; comments and trailing commas as in https://jsonc.org.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.applications.edits import MAX_INDENT, TextProblem

MAX_DEPTH = 200
"""Objects and arrays inside each other."""

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])|(?:true|false|null)(?!\w)")


@dataclass(slots=True)
class Member:
    """One member of an object: where its key starts, its value, and the position of the comma after it, if any."""

    key: str
    start: int
    node: Node
    comma: int | None = None


@dataclass(slots=True)
class Node:
    """A value and its span; `members` for an object."""

    start: int
    end: int
    value: Any
    members: list[Member] = field(default_factory=list)


class _Reader:
    """A recursive reader of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> Node:
        self.skip()
        node = self.value(0)
        self.skip()
        if self.at < len(self.text):
            raise self.problem("expected the end of the file")
        return node

    def problem(self, sentence: str, at: int | None = None) -> TextProblem:
        return TextProblem(f"{sentence} at {place_of(self.text, self.at if at is None else at)}")

    def skip(self) -> None:
        """Go past whitespace and comments."""
        while True:
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
            comment = _COMMENT.match(self.text, self.at)
            if not comment:
                return
            self.at = comment.end()

    def value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.problem(f"expected at most {MAX_DEPTH} values inside each other")
        start, sign = self.at, self.text[self.at : self.at + 1]
        if sign == "{":
            return self.object(depth)
        if sign == "[":
            return self.array(depth)
        if sign == '"':
            return self.string_node(start)
        found = _SCALAR.match(self.text, self.at)
        if not found:
            raise self.problem("expected a JSON value")
        self.at = found.end()
        return Node(start, self.at, json.loads(found[0]))

    def string_node(self, start: int) -> Node:
        value = self.string()
        return Node(start, self.at, value)

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        try:
            value = json.loads(found[0]) if found else None
        except ValueError:
            value = None
        if found is None or not isinstance(value, str):
            raise self.problem("expected a string in double quotes")
        self.at = found.end()
        return value

    def array(self, depth: int) -> Node:
        start, items = self.at, []
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != "]":
            items.append(self.value(depth + 1).value)
            self.after_item("]")
        self.at += 1
        return Node(start, self.at, items)

    def object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != "}":
            where = self.at
            key = self.string()
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                raise self.problem("expected a colon after the name of a member")
            self.at += 1
            self.skip()
            member = Member(key, where, self.value(depth + 1))
            member.comma = self.after_item("}")
            members.append(member)
        self.at += 1
        return Node(start, self.at, {member.key: member.node.value for member in members}, members)

    def after_item(self, closing: str) -> int | None:
        """Read the comma after an item, or find the closing sign; return the position of the comma."""
        self.skip()
        sign = self.text[self.at : self.at + 1]
        if sign == closing:
            return None
        if sign != ",":
            raise self.problem(f"expected a comma or {closing}")
        self.at += 1
        comma = self.at - 1
        self.skip()
        return comma


def read_tree(text: str) -> Node:
    """Return the tree of a text. Raises TextProblem with line and column."""
    return _Reader(text).read()


def place_of(text: str, at: int) -> str:
    """Return a position as `line 3, column 7`, from 1."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


def newline_of(text: str) -> str:
    """Return the line break that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"


class JsonText:
    """The format of JSON files, with or without comments."""

    def parse(self, text: str) -> dict[str, Any]:
        """Return the object of a text."""
        found = read_tree(text or "{}").value if text.strip() else {}
        if not isinstance(found, dict):
            raise TextProblem("expected a JSON object as the whole file")
        return found

    def insert(self, text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
        """Insert an entry as the last one of its section."""
        if not text.strip():
            text = "{}" + newline_of(text)
        root = read_tree(text)
        found = _find_path(root, section, text)
        if found is None:
            return _insert_member(text, root, section, {name: entry})
        return _insert_member(text, found.node, name, entry)

    def remove(self, text: str, section: str, name: str) -> str:
        """Remove an entry."""
        found = _find_path(read_tree(text), section, text)
        return text if found is None else _remove_member(text, found.node, name)

    def remove_section(self, text: str, section: str) -> str:
        """Remove a section."""
        return _remove_member(text, read_tree(text), section)


def _find_path(root: Node, path: str, text: str) -> Member | None:
    """Return the member at a path of names with points between them, None for a missing one."""
    found: Member | None = None
    for key in path.split("."):
        found = _find(root if found is None else found.node, key, text)
        if found is None:
            return None
    return found


def _find(parent: Node, key: str, text: str) -> Member | None:
    found = [member for member in parent.members if member.key == key]
    if len(found) > 1:
        raise TextProblem(f"{key} appears twice, the second time at {place_of(text, found[1].start)}")
    return found[0] if found else None


def _insert_member(text: str, parent: Node, key: str, value: Any) -> str:
    newline, unit = newline_of(text), _indent_unit(text, parent)
    close = parent.end - 1
    label = json.dumps(key, ensure_ascii=False) + ": "
    if not parent.members:
        outer = _line_indent(text, parent.start)
        inside = _content_end(text, parent.start + 1, close)
        gap = text[inside:close]
        block = newline + outer + unit + label + _pretty(value, unit, outer + unit, newline)
        tail = gap if "\n" in gap else newline + outer
        return text[:inside] + block + tail + text[close:]
    last = parent.members[-1]
    indent = _own_line_indent(text, last.start)
    if indent is None:
        inline = label + json.dumps(value, ensure_ascii=False)
        at = last.node.end if last.comma is None else last.comma + 1
        return text[:at] + (f", {inline}" if last.comma is None else f" {inline},") + text[at:]
    block = newline + indent + label + _pretty(value, unit, indent, newline)
    if last.comma is None:
        inside = _content_end(text, last.node.end, close)
        return text[: last.node.end] + "," + text[last.node.end : inside] + block + text[inside:]
    inside = _content_end(text, last.comma + 1, close)
    return text[:inside] + block + "," + text[inside:]


def _remove_member(text: str, parent: Node, key: str) -> str:
    member = _find(parent, key, text)
    if member is None:
        return text
    index = parent.members.index(member)
    before = parent.members[index - 1] if index else None
    earlier = parent.start + 1 if before is None or before.comma is None else before.comma + 1
    start = _content_end(text, earlier, member.start)
    end = member.node.end if member.comma is None else member.comma + 1
    if (
        len(parent.members) == 1
        and not text[parent.start + 1 : start].strip()
        and not text[end : parent.end - 1].strip()
    ):
        return text[: parent.start] + "{}" + text[parent.end :]
    if not re.match(r"[ \t]*(\r?\n|[}\]])", text[end:]):
        start = member.start
        end = end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    after = text[:start] + text[end:]
    if member.comma is None and before is not None and before.comma is not None:
        after = after[: before.comma] + after[before.comma + 1 :]
    return after


def _content_end(text: str, start: int, end: int) -> int:
    """Return where the last comment of a gap ends, or its start when it has no comment."""
    reader = _Reader(text[:end])
    reader.at, last = start, start
    while reader.at < end:
        space = _SPACE.match(reader.text, reader.at)
        reader.at = space.end() if space else reader.at
        comment = _COMMENT.match(reader.text, reader.at)
        if not comment:
            break
        reader.at = last = comment.end()
    return last


def _own_line_indent(text: str, at: int) -> str | None:
    """Return the indentation of a token that is the first one of its line, or None."""
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    return before if start and not before.strip(" \t") else None


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str, parent: Node) -> str:
    """Return one step of indentation: that of the object's members, else the first one of the file."""
    if parent.members:
        inner, outer = _own_line_indent(text, parent.members[0].start), _line_indent(text, parent.start)
        if inner and inner.startswith(outer) and 0 < len(inner) - len(outer) <= MAX_INDENT:
            return inner[len(outer) :]
    first = re.search(r"\n([ ]{1,8}|\t)(?=[^\s/])", text)
    return first[1] if first else "  "


def _pretty(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)
