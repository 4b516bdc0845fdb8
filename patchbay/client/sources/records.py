"""Answers of an MCP server as records: one line of NDJSON for each piece of content, or each item of a list.

    tool_result        one per content item: `tool`, `mimeType`, and `text`, or `blob` (base64), or `uri` and `name`
    resource_content   one per content of a resource: `uri`, `mimeType`, `text` or `blob`
    prompt_message     one per message of a prompt: `prompt`, `role`, and the content as above
    tool, resource, resource_template, prompt, skill   an item of a list, as the server describes it

`isError` is on every record of a failed call; `structuredContent` and `_meta` of a result are on its first record.
Pure.

Source: MCP specification, server/tools (content).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from patchbay.client.errors import McpFailure
from patchbay.raised.forms import RAISED_KEY

Record = dict[str, Any]

LIST_RECORDS: Mapping[str, str] = {
    "tools": "tool",
    "resources": "resource",
    "templates": "resource_template",
    "prompts": "prompt",
    "skills": "skill",
}
"""Values of `list=`, and the type of each record of that list."""

PLAIN_TEXT = "text/plain"
_OMITTED_META_KEYS = frozenset({"io.modelcontextprotocol/serverInfo", RAISED_KEY})


def make_content_fields(item: Mapping[str, Any]) -> Record:
    """Make the fields of one content item; an unknown kind of content is kept under `content`."""
    kind = item.get("type")
    if kind == "text":
        return {"text": item.get("text", ""), "mimeType": PLAIN_TEXT}
    if kind in ("image", "audio"):
        return {"blob": item.get("data", ""), "mimeType": item.get("mimeType", "application/octet-stream")}
    if kind == "resource" and isinstance(item.get("resource"), Mapping):
        return _make_resource_fields(item["resource"])
    if kind == "resource_link":
        return {key: item[key] for key in ("uri", "name", "title", "description", "mimeType", "size") if key in item}
    return {"content": dict(item)}


def _make_resource_fields(content: Mapping[str, Any]) -> Record:
    found = {key: content[key] for key in ("uri", "mimeType", "text", "blob") if key in content}
    return {"mimeType": PLAIN_TEXT, **found} if "text" in found else found


def _get_objects(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Get the objects of a list in a result, [] when it is absent. Raises McpFailure for anything else."""
    found = result.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise McpFailure(-32603, f"the answer's {key!r} is not a list of objects, as the MCP specification requires")
    return found


def make_call_records(tool: str, result: Mapping[str, Any]) -> Iterator[Record]:
    """Make the records of a tool's result; one without content when the result has none."""
    raw = result.get("_meta")
    meta = {key: value for key, value in raw.items() if key not in _OMITTED_META_KEYS} if isinstance(raw, dict) else {}
    beside = {"structuredContent": result["structuredContent"]} if result.get("structuredContent") is not None else {}
    beside |= {"_meta": meta} if meta else {}
    failed = {"isError": True} if result.get("isError") else {}
    for item in _get_objects(result, "content") or [{}]:
        yield {"type": "tool_result", "tool": tool, **(make_content_fields(item) if item else {}), **failed, **beside}
        beside = {}


def make_resource_records(result: Mapping[str, Any]) -> Iterator[Record]:
    """Make the records of a resource."""
    for content in _get_objects(result, "contents"):
        yield {"type": "resource_content", **_make_resource_fields(content)}


def make_prompt_records(prompt: str, result: Mapping[str, Any]) -> Iterator[Record]:
    """Make the records of a prompt."""
    for message in _get_objects(result, "messages"):
        content = message.get("content") or {}
        for item in _get_objects({"content": content if isinstance(content, list) else [content]}, "content"):
            yield {"type": "prompt_message", "prompt": prompt, "role": message.get("role"), **make_content_fields(item)}


def make_list_records(what: str, items: Iterable[Mapping[str, Any]], container: str = "") -> Iterator[Record]:
    """Make the records of a list. With `container`, each record names its type and its server (`list=all`)."""
    kind = LIST_RECORDS[what]
    for item in items:
        mark = {"_type": kind, "_container": container} if container else {}
        yield {"type": kind, **item, **mark}


def get_arguments(record: Mapping[str, Any]) -> Record:
    """Get the arguments in a record: its fields, without the keys that start with `_`."""
    return {key: value for key, value in record.items() if not key.startswith("_")}
