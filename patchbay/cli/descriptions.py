"""What there is on a server, as text for people: the lines of JN-34, and what the protocol has beside them.

In colour on a terminal (click leaves it out elsewhere). Whatever a server says is made harmless first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from patchbay.cli.messages import printable
from patchbay.client.contracts.signatures import format_signature

Json = Mapping[str, Any]


def inspection(found: Json) -> str:
    """The text of what `inspects` gives: an MCP server, or any other source with lists of named things."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Json) -> Iterator[str]:
    yield f"{_head('Server')}: {_said(found.get('server'))}"
    yield f"{_head('Transport')}: {_said(found.get('transport'))}"
    info = found.get("serverInfo") or {}
    if info.get("version"):
        yield f"{_head('Version')}: {_said(info['version'])}"
    if found.get("protocolVersion"):
        yield f"{_head('Revision')}: {_said(found['protocolVersion'])}"
    if found.get("contract"):
        yield f"{_head('Contract')}: {_said(found['contract'])}"
    if found.get("capabilities"):
        yield f"{_head('Capabilities')}: {', '.join(_said(name) for name in _capabilities(found['capabilities']))}"
    if found.get("instructions"):
        yield ""
        yield f"{_head('Instructions')}:"
        yield from _indented(found["instructions"], "  ")
    if "tools" in found:
        yield from _tools(found["tools"])
    if "resources" in found:
        yield from _resources("Resources", found["resources"], "uri", "URI")
    if found.get("resourceTemplates"):
        yield from _resources("Resource templates", found["resourceTemplates"], "uriTemplate", "URI template")
    if found.get("prompts"):
        yield from _prompts(found["prompts"])
    known = {"tools", "resources", "resourceTemplates", "prompts"}
    for key, rows in found.items():
        if key not in known and isinstance(rows, list):
            yield from _others(key, rows)


def _capabilities(capabilities: Json) -> Iterator[str]:
    """`resources`, with what is switched on in brackets: `resources (listChanged, subscribe)`."""
    for name, inner in capabilities.items():
        marks = sorted(key for key, value in inner.items() if value) if isinstance(inner, dict) else []
        yield f"{name} ({', '.join(marks)})" if marks else name


def _tools(tools: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"{_head(f'Tools ({len(tools)})')}:"
    for tool in tools:
        yield from _named(tool)
        yield f"    {_said(format_signature(tool))}"
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        needed = schema.get("required") if isinstance(schema, dict) else None
        required = needed if isinstance(needed, list) else []
        if isinstance(properties, dict) and properties:
            yield "    Parameters:"
            for name, one in properties.items():
                yield from _parameter(name, one, name in required)


def _parameter(name: str, one: Any, needed: bool) -> Iterator[str]:
    words = str(one.get("description", "")) if isinstance(one, dict) else ""
    lines = printable(words).strip().splitlines() or [""]
    mark = " " + click.style("(required)", fg="yellow") if needed else ""
    yield f"      {_name(name)}{mark}: {lines[0]}".rstrip()
    yield from (f"        {line.strip()}" for line in lines[1:])


def _resources(title: str, rows: Sequence[Json], key: str, label: str) -> Iterator[str]:
    yield ""
    yield f"{_head(f'{title} ({len(rows)})')}:"
    for row in rows:
        yield from _named(row)
        yield f"    {label}: {_said(row.get(key))}"


def _prompts(prompts: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"{_head(f'Prompts ({len(prompts)})')}:"
    for prompt in prompts:
        yield from _named(prompt)
        given = prompt.get("arguments")
        rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
        if rows:
            yield "    Arguments:"
            for row in rows:
                yield from _parameter(str(row.get("name")), row, bool(row.get("required")))


def _others(key: str, rows: Sequence[Any]) -> Iterator[str]:
    yield ""
    yield f"{_head(f'{_said(key).capitalize()} ({len(rows)})')}:"
    for row in rows:
        yield (
            f"  {_said(row)}"
            if not isinstance(row, dict)
            else f"  {', '.join(f'{k}: {_said(v)}' for k, v in row.items())}"
        )


def _named(row: Json) -> Iterator[str]:
    lines = printable(str(row.get("description") or row.get("title") or "No description")).strip().splitlines()
    yield f"  {_name(str(row.get('name')))}: {lines[0] if lines else ''}".rstrip()
    yield from (f"    {line.strip()}".rstrip() for line in lines[1:])


def _indented(text: str, prefix: str) -> Iterator[str]:
    yield from (f"{prefix}{line}".rstrip() for line in printable(str(text)).strip().splitlines())


def _head(text: str) -> str:
    return click.style(printable(text), bold=True)


def _name(text: str) -> str:
    return click.style(printable(text).replace("\n", " "), fg="cyan")


def _said(value: Any) -> str:
    return printable(str(value)).replace("\n", " ")
