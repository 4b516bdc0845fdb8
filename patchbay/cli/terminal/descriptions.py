"""The description of a server as text for people.

The text has colours on a terminal; click removes them elsewhere. Control characters of the server are replaced first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from patchbay.cli.terminal.messages import make_printable
from patchbay.client.contracts.signatures import format_signature

Json = Mapping[str, Any]


def format_inspection(found: Json) -> str:
    """Format the result of `Source.inspects`: an MCP server, or another source with lists of named items."""
    return "\n".join(_inspection_lines(found)) + "\n"


def _inspection_lines(found: Json) -> Iterator[str]:
    yield f"{_style_heading('Server')}: {_one_line(found.get('server'))}"
    yield f"{_style_heading('Transport')}: {_one_line(found.get('transport'))}"
    info = found.get("serverInfo") or {}
    if info.get("version"):
        yield f"{_style_heading('Version')}: {_one_line(info['version'])}"
    if found.get("protocolVersion"):
        yield f"{_style_heading('Revision')}: {_one_line(found['protocolVersion'])}"
    if found.get("contract"):
        yield f"{_style_heading('Digest of the tools')}: {_one_line(found['contract'])}"
    if found.get("capabilities"):
        names = ", ".join(_one_line(name) for name in _capability_names(found["capabilities"]))
        yield f"{_style_heading('Capabilities')}: {names}"
    for key, reason in (found.get("problems") or {}).items():
        yield f"{_style_heading('Problem')}: {_one_line(key)}: {_one_line(reason)}"
    if found.get("instructions"):
        yield ""
        yield f"{_style_heading('Instructions')}:"
        yield from _indented_lines(found["instructions"], "  ")
    if "tools" in found:
        yield from _tool_lines(found["tools"])
    if "resources" in found:
        yield from _resource_lines("Resources", found["resources"], "uri", "URI")
    if found.get("resourceTemplates"):
        yield from _resource_lines("Resource templates", found["resourceTemplates"], "uriTemplate", "URI template")
    if found.get("prompts"):
        yield from _prompt_lines(found["prompts"])
    if found.get("skills"):
        yield from _skill_lines(found["skills"])
    known = {"tools", "resources", "resourceTemplates", "prompts", "skills"}
    for key, rows in found.items():
        if key not in known and isinstance(rows, list):
            yield from _other_lines(key, rows)


def _capability_names(capabilities: Json) -> Iterator[str]:
    """The names of capabilities with their enabled features: `resources (listChanged, subscribe)`."""
    for name, inner in capabilities.items():
        marks = sorted(key for key, value in inner.items() if value) if isinstance(inner, dict) else []
        yield f"{name} ({', '.join(marks)})" if marks else name


def _tool_lines(tools: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"{_style_heading(f'Tools ({len(tools)})')}:"
    for tool in tools:
        yield from _item_lines(tool)
        yield f"    {_one_line(format_signature(tool))}"
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        needed = schema.get("required") if isinstance(schema, dict) else None
        required = needed if isinstance(needed, list) else []
        if isinstance(properties, dict) and properties:
            yield "    Parameters:"
            for name, one in properties.items():
                yield from _parameter_lines(name, one, name in required)


def _parameter_lines(name: str, one: Any, needed: bool) -> Iterator[str]:
    words = str(one.get("description", "")) if isinstance(one, dict) else ""
    lines = make_printable(words).strip().splitlines() or [""]
    mark = " " + click.style("(required)", fg="yellow") if needed else ""
    yield f"      {_style_name(name)}{mark}: {lines[0]}".rstrip()
    yield from (f"        {line.strip()}" for line in lines[1:])


def _resource_lines(title: str, rows: Sequence[Json], key: str, label: str) -> Iterator[str]:
    yield ""
    yield f"{_style_heading(f'{title} ({len(rows)})')}:"
    for row in rows:
        yield from _item_lines(row)
        yield f"    {label}: {_one_line(row.get(key))}"


def _prompt_lines(prompts: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"{_style_heading(f'Prompts ({len(prompts)})')}:"
    for prompt in prompts:
        yield from _item_lines(prompt)
        given = prompt.get("arguments")
        rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
        if rows:
            yield "    Arguments:"
            for row in rows:
                yield from _parameter_lines(str(row.get("name")), row, bool(row.get("required")))


def _skill_lines(skills: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"{_style_heading(f'Skills ({len(skills)})')}:"
    for skill in skills:
        frontmatter = skill.get("frontmatter")
        yield from _item_lines(frontmatter if isinstance(frontmatter, dict) else {})
        yield f"    URI: {_one_line(skill.get('uri'))}"
        files = skill.get("resources")
        if isinstance(files, list):
            yield f"    Files: {len(files)}"


def _other_lines(key: str, rows: Sequence[Any]) -> Iterator[str]:
    yield ""
    yield f"{_style_heading(f'{_one_line(key).capitalize()} ({len(rows)})')}:"
    for row in rows:
        yield (
            f"  {_one_line(row)}"
            if not isinstance(row, dict)
            else f"  {', '.join(f'{k}: {_one_line(v)}' for k, v in row.items())}"
        )


def _item_lines(row: Json) -> Iterator[str]:
    lines = make_printable(str(row.get("description") or row.get("title") or "No description")).strip().splitlines()
    yield f"  {_style_name(str(row.get('name')))}: {lines[0] if lines else ''}".rstrip()
    yield from (f"    {line.strip()}".rstrip() for line in lines[1:])


def _indented_lines(text: str, prefix: str) -> Iterator[str]:
    yield from (f"{prefix}{line}".rstrip() for line in make_printable(str(text)).strip().splitlines())


def _style_heading(text: str) -> str:
    return click.style(make_printable(text), bold=True)


def _style_name(text: str) -> str:
    return click.style(make_printable(text).replace("\n", " "), fg="cyan")


def _one_line(value: Any) -> str:
    return make_printable(str(value)).replace("\n", " ")
