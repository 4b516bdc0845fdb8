"""TOML, as Codex reads it: an entry is a table `[SECTION.NAME]` at the end of the file, removed as a span of lines.

Source of the grammar: https://toml.io/en/v1.0.0. `tomllib` reads; this module only finds lines.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.client.applications.edits import TextProblem
from patchbay.client.applications.json_text import newline_of

_TOKEN = re.compile(
    r"""#[^\n]*|\"\"\"(?:[^\\]|\\.)*?\"{3,5}|'''.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\[\]{}\n]|[^\[\]{}\n"'#]+""",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a file: its keys, the start of its header line, and the end of the last line with content."""

    keys: tuple[str, ...]
    start: int
    end: int


class TomlText:
    """The format of TOML files."""

    def parse(self, text: str) -> dict[str, Any]:
        """Return the value of a text."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise TextProblem(f"expected TOML: {problem}") from problem

    def insert(self, text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
        """Append the table of an entry."""
        newline = newline_of(text)
        block = newline.join(_table_lines((section, name), entry))
        if not text:
            return block + newline
        has_end = text.endswith("\n")
        return text + (newline if has_end else 2 * newline) + block + (newline if has_end else "")

    def remove(self, text: str, section: str, name: str) -> str:
        """Remove the table of an entry and the tables inside it, with the empty line before each."""
        found = [table for table in _find_tables(text) if table.keys[:2] == (section, name)]
        if not found:
            raise TextProblem(f"expected a table [{_dotted((section, name))}], but {name} is written in another form")
        for table in reversed(found):
            start, end = _with_empty_line(text, table.start), table.end
            if end == len(text) and not text.endswith("\n"):
                start -= len(re.search(r"(\r?\n)?\Z", text[:start])[0])  # type: ignore[index]
            elif start == 0:
                end += len(re.match(r"(\r?\n)?", text[end:])[0])  # type: ignore[index]
            text = text[:start] + text[end:]
        return text

    def remove_section(self, text: str, section: str) -> str:
        """Remove an empty table of the section."""
        for table in reversed([table for table in _find_tables(text) if table.keys == (section,)]):
            text = text[: _with_empty_line(text, table.start)] + text[table.end :]
        return text


def _with_empty_line(text: str, start: int) -> int:
    """Return the start of the empty line before a position, or the position."""
    before = re.search(r"(?:\A|(?<=\n))\r?\n\Z", text[:start])
    return before.start() if before else start


def _find_tables(text: str) -> Iterator[_Table]:
    """Yield the tables of a valid text in order."""
    headers: list[tuple[int, int]] = []
    ends: list[int] = []
    depth, line, is_first, has_content = 0, 0, True, False
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign == "\n":
            if has_content:
                ends.append(token.end())
            line, is_first, has_content = token.end(), True, has_content and depth > 0
            continue
        if is_first and depth == 0 and sign == "[":
            headers.append((line, token.start()))
        depth += (sign in "[{") - (sign in "]}") if len(sign) == 1 else 0
        is_first = is_first and not sign.strip()
        has_content = has_content or (bool(sign.strip()) and not sign.startswith("#"))
    if has_content:
        ends.append(len(text))
    for index, (start, bracket) in enumerate(headers):
        stop = headers[index + 1][0] if index + 1 < len(headers) else len(text)
        end = max((one for one in ends if start < one <= stop), default=stop)
        yield _Table(_header_keys(text[bracket : _line_end(text, bracket)]), start, end)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _header_keys(line: str) -> tuple[str, ...]:
    keys: list[str] = []
    value: Any = tomllib.loads(line.strip())
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        keys.append(key)
    return tuple(keys)


def _table_lines(keys: tuple[str, ...], entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{_dotted(keys)}]"
    for key, value in entry.items():
        yield f"{_dotted((key,))} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_dotted((key,))} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dotted(keys: tuple[str, ...]) -> str:
    return ".".join(key if _BARE_KEY.fullmatch(key) else _value(key) for key in keys)
