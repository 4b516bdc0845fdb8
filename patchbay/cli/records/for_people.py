"""Records as a person reads them on a terminal: text as text, structured values as indented JSON with colours.

The lines have the codes of colours; click removes them where `NO_COLOR` forbids colours. Characters of a server that
control a terminal are replaced. `_meta` is left out: `--json` shows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from patchbay.cli.records.ndjson import escape_control
from patchbay.cli.terminal.messages import make_printable
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

Json = Mapping[str, Any]

_CONTENTS = ("tool_result", "resource_content", "prompt_message")
"""The types of records that hold one content of an answer."""

_TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")(?P<key>:)?|(?P<word>true|false|null)|(?P<number>-?\d[\d.eE+-]*)')


def format_json(value: Any) -> str:
    """Format a JSON value with indentation and colours."""
    return _TOKEN.sub(_color_token, indent_json(value))


def indent_json(value: Any) -> str:
    """Format a JSON value with indentation, and with characters that control a terminal as escapes."""
    return escape_control(json.dumps(value, indent=2, ensure_ascii=False))


def _color_token(found: re.Match[str]) -> str:
    if found["key"]:
        return click.style(found["string"], fg="blue", bold=True) + ":"
    return click.style(found[0], fg="green" if found["string"] else "magenta" if found["word"] else "cyan")


def describe_record(record: Any) -> Iterator[str]:
    """Yield the lines of one record."""
    if not isinstance(record, Mapping):
        yield format_json(record)
    elif record.get("_error") is True:
        yield _style_error(str(record.get("message", "")))
        if isinstance(record.get("line"), str):
            yield "  " + make_printable(record["line"])
    elif "saved" in record:
        yield make_printable(f"Saved {record['saved']} ({record.get('bytes')} bytes)")
    elif record.get("type") in _CONTENTS:
        yield from _describe_content(record)
    else:
        yield format_json(record)


def _describe_content(record: Json) -> Iterator[str]:
    """Yield the lines of one content: its text, its structured value, or what it is."""
    if record.get("role"):
        yield click.style(make_printable(f"{record['role']}:"), bold=True)
    text, structured = record.get("text"), record.get("structuredContent")
    if isinstance(text, str):
        if record.get("type") == "tool_result" and record.get("uri"):
            yield click.style(make_printable(str(record["uri"])), dim=True)
        yield from _describe_text(text, structured, bool(record.get("isError")))
        return
    if "blob" in record:
        yield _describe_blob(record)
    elif "content" in record:
        yield format_json(record["content"])
    elif record.get("uri"):
        yield from _describe_link(record)
    elif structured is None:
        yield click.style("(no content)", dim=True)
    if structured is not None:
        yield format_json(structured)


def _describe_text(text: str, structured: Any, is_error: bool) -> Iterator[str]:
    """Yield a text, and the structured value of its result where that says more than the text."""
    value = _parse_text(text)
    has_structure = isinstance(value, dict | list)
    if is_error and not has_structure:
        yield _style_error(text)
    else:
        yield format_json(value) if has_structure else make_printable(text).removesuffix("\n")
    if structured is not None and not _is_repeated(structured, text, value):
        yield format_json(structured)


def _is_repeated(structured: Any, text: str, value: Any) -> bool:
    """Whether a structured value is the text, or the JSON `value` of the text, alone or as its only member."""
    only = list(structured.values()) if isinstance(structured, Mapping) and len(structured) == 1 else []
    return any(one in (text, value) for one in (structured, *only))


def _parse_text(text: str) -> Any:
    """Parse a text that is one JSON value; the text itself for any other text."""
    try:
        return parse(text.encode("utf-8", "surrogatepass"))
    except ParseError:
        return text


def _describe_blob(record: Json) -> str:
    """Describe bytes in base64 by their type and size."""
    data = str(record["blob"])
    size = len(data) * 3 // 4 - data[-2:].count("=")
    hint = "" if record.get("type") == "prompt_message" else "; --output PATH saves it"
    return click.style(make_printable(f"({record.get('mimeType', 'bytes')}, {size} bytes{hint})"), dim=True)


def _describe_link(record: Json) -> Iterator[str]:
    name = record.get("title") or record.get("name")
    facts = [str(record["mimeType"])] if record.get("mimeType") else []
    facts += [f"{record['size']} bytes"] if record.get("size") is not None else []
    about = f" ({', '.join(facts)})" if facts else ""
    yield make_printable(f"{f'{name}: ' if name else ''}{record['uri']}{about}")
    if record.get("description"):
        yield make_printable(f"  {record['description']}")


def _style_error(text: str) -> str:
    return click.style("Error:", fg="red", bold=True) + " " + make_printable(text).removesuffix("\n")
