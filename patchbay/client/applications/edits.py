"""The interface of a file format: read the servers of a file, insert an entry, remove an entry.

Each format (`json_text`, `toml_text`, `yaml_text`) edits spans of the text, so that every character outside the entry
stays: comments, order, indentation, quotes, line endings. Libraries that write a whole document again change some of
these. `insert` and `remove` here check each edit: the new text must read as the old value with exactly this entry more
or less, or nothing changes.

A section is a member of the whole file, or in JSON a path of an existing one with a point: `mcp.servers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from patchbay.errors import ConfigError

MAX_INDENT = 8
"""Columns of the widest indentation that is taken over from a file."""


class TextProblem(ValueError):
    """A text that cannot be read or edited: the sentence, with line and column where they are known."""


class Format(Protocol):
    """A file format. Positions are characters of the text; line breaks are as in the file."""

    def parse(self, text: str) -> dict[str, Any]:
        """Return the value of a whole file; an empty text is an empty object. Raises TextProblem."""

    def insert(self, text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with one more entry at the end of the section, which is made when it is missing."""

    def remove(self, text: str, section: str, name: str) -> str:
        """Return the text without an entry. A section without entries stays."""

    def remove_section(self, text: str, section: str) -> str:
        """Return the text without an empty section."""


def read_servers(form: Format, text: str, section: str, where: str) -> dict[str, Any]:
    """Return the servers of a text by name. Raises ConfigError naming `where`, the line and the column."""
    try:
        found = find_section(form.parse(text), section)
    except TextProblem as problem:
        raise ConfigError(where, "", str(problem)) from problem
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(where, section, "expected an object with the servers by name")
    return found


def insert(form: Format, text: str, section: str, name: str, entry: Mapping[str, Any], where: str) -> str:
    """Return the text with the entry; an entry of this name is replaced. Raises ConfigError."""
    present = read_servers(form, text, section, where)
    servers = {**{key: value for key, value in present.items() if key != name}, name: dict(entry)}
    expected = _with_section(form.parse(text), section, servers)
    if name in present:
        text = remove(form, text, section, name, where)
    return _edit(form, lambda: form.insert(text, section, name, entry), expected, where)


def remove(form: Format, text: str, section: str, name: str, where: str) -> str:
    """Return the text without the entry; the section stays, also when it is empty. Raises ConfigError."""
    present = read_servers(form, text, section, where)
    if name not in present:
        return text
    servers = {key: value for key, value in present.items() if key != name}
    expected = _with_section(form.parse(text), section, servers)
    return _edit(form, lambda: form.remove(text, section, name), expected, where, section if "." not in section else "")


def find_section(whole: Mapping[str, Any], section: str) -> Any:
    """Return the value at the path of a section, None for a missing one."""
    found: Any = whole
    for key in section.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _with_section(whole: Mapping[str, Any], section: str, servers: dict[str, Any]) -> dict[str, Any]:
    key, point, rest = section.partition(".")
    return {**whole, key: _with_section(whole.get(key) or {}, rest, servers) if point else servers}


def remove_empty_section(form: Format, text: str, section: str, where: str) -> str:
    """Return the text without a section that has no entries. Raises ConfigError."""
    whole = form.parse(text)
    if section not in whole or whole[section]:
        return text
    expected = {key: value for key, value in whole.items() if key != section}
    return _edit(form, lambda: form.remove_section(text, section), expected, where)


def _edit(form: Format, edit: Callable[[], str], expected: Mapping[str, Any], where: str, may_vanish: str = "") -> str:
    """Make an edit and check what it means. A section named by `may_vanish` may be missing where it would be empty."""
    try:
        after = edit()
        found = form.parse(after)
    except TextProblem as problem:
        raise ConfigError(where, "", f"this file cannot be edited exactly: {problem}; change it by hand") from problem
    if may_vanish and not expected[may_vanish]:
        found, expected = (
            {key: value for key, value in one.items() if key != may_vanish or value} for one in (found, expected)
        )
    if found != expected:
        raise ConfigError(where, "", "this file cannot be edited without changing other settings; change it by hand")
    return after
