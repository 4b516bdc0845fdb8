"""YAML, as Goose reads it: an entry is a block of lines at the end of its section.

PyYAML composes the nodes with their positions; this module cuts and inserts whole lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from patchbay.client.applications.edits import TextProblem
from patchbay.client.applications.json_text import newline_of

_STEP = "  "


class YamlText:
    """The format of YAML files with one document."""

    def parse(self, text: str) -> dict[str, Any]:
        """Return the value of a text."""
        try:
            found = yaml.safe_load(text)
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark
            where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise TextProblem(f"expected YAML: {problem.problem}{where}") from problem
        except yaml.YAMLError as problem:
            raise TextProblem(f"expected YAML: {problem}") from problem
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise TextProblem("expected a YAML mapping as the whole file")
        return {str(key): value for key, value in found.items()}

    def insert(self, text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
        """Insert an entry as the last one of its section."""
        newline, root = newline_of(text), _compose(text)
        found = _find(root, section)
        if found is None:
            if root is not None and root.flow_style:
                raise TextProblem("expected the whole file as lines `name: value`, not inside braces")
            return _insert_lines(text, len(text), [f"{_key(section)}:", *_entry_lines(name, entry, _STEP)], newline)
        key, node = found
        if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
            indent = " " * node.value[0][0].start_mark.column
            return _insert_lines(text, _after(text, _end(node)), list(_entry_lines(name, entry, indent)), newline)
        if isinstance(node, yaml.MappingNode) and node.value:
            at = node.value[-1][1].end_mark.index
            return text[:at] + f", {_key(name)}: {json.dumps(entry, ensure_ascii=False)}" + text[at:]
        indent = " " * key.start_mark.column + _STEP
        start, end = key.end_mark.index + 1, node.end_mark.index
        kept = text[:start] + (text[end:] if isinstance(node, yaml.MappingNode) else text[start:])
        return _insert_lines(kept, _after(kept, start), list(_entry_lines(name, entry, indent)), newline)

    def remove(self, text: str, section: str, name: str) -> str:
        """Remove an entry. A section that would be empty becomes `{}`."""
        found = _find(_compose(text), section)
        entry = _find(found[1], name) if found else None
        if not found or not entry or not isinstance(found[1], yaml.MappingNode):
            raise TextProblem(f"expected {section} as a mapping with the entry {name}")
        node = found[1]
        if node.flow_style:
            return _cut_flow(text, node, entry)
        if len(node.value) == 1:
            start, end = found[0].end_mark.index + 1, _end(node)
            return text[:start] + " {}" + text[end:]
        return _cut_lines(text, entry[0].start_mark.index, _end(entry[1]))

    def remove_section(self, text: str, section: str) -> str:
        """Remove a section."""
        found = _find(_compose(text), section)
        return text if found is None else _cut_lines(text, found[0].start_mark.index, _end(found[1]))


def _compose(text: str) -> yaml.MappingNode | None:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        raise TextProblem(f"expected one YAML document: {problem}") from problem
    if root is None or isinstance(root, yaml.MappingNode):
        return root
    raise TextProblem("expected a YAML mapping as the whole file")


def _find(parent: Any, key: str) -> tuple[Any, Any] | None:
    rows = parent.value if isinstance(parent, yaml.MappingNode) else []
    found = [row for row in rows if isinstance(row[0], yaml.ScalarNode) and row[0].value == key]
    if len(found) > 1:
        raise TextProblem(f"{key} appears twice, the second time at line {found[1][0].start_mark.line + 1}")
    return found[0] if found else None


def _end(node: Any) -> int:
    """Return the end of the last token of a node; PyYAML ends a block at the next token."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _after(text: str, at: int) -> int:
    """Return the start of the line after a position, or the position when it starts a line."""
    if at and text[at - 1] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _insert_lines(text: str, at: int, lines: list[str], newline: str) -> str:
    """Insert lines at the start of a line, or after a last line that has no line break."""
    block = newline.join(lines)
    if at == len(text) and text and not text.endswith("\n"):
        return text + newline + block
    return text[:at] + block + newline + text[at:]


def _cut_lines(text: str, start: int, end: int) -> str:
    start, end = text.rfind("\n", 0, start) + 1, _after(text, end)
    if end == len(text) and not text.endswith("\n") and start:
        start -= 2 if text[:start].endswith("\r\n") else 1
    return text[:start] + text[end:]


def _cut_flow(text: str, node: Any, entry: tuple[Any, Any]) -> str:
    index = node.value.index(entry)
    if index:
        return text[: node.value[index - 1][1].end_mark.index] + text[entry[1].end_mark.index :]
    after = node.value[1][0].start_mark.index if len(node.value) > 1 else entry[1].end_mark.index
    return text[: entry[0].start_mark.index] + text[after:]


def _entry_lines(name: str, entry: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield f"{indent}{_key(name)}:"
    for key, value in entry.items():
        yield f"{indent}{_STEP}{key}: {json.dumps(value, ensure_ascii=False)}"


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "").isalpha() and yaml.safe_load(name) == name
    return name if plain else json.dumps(name, ensure_ascii=False)
