"""What tests of changing mounted servers share: the mount of `changing_server.py`, its lists, and looks at the hub."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import orjson

from patchbay.pins.documents import Changes, ItemKey, PinDocument
from patchbay.pins.records import load_pins
from patchbay.topics import PINNED
from tests.hubs import MODERN, Hub

SERVER = Path(__file__).with_name("changing_server.py")
TOOLS = 25
HINT = re.compile(rb"; did you mean [^?]*\?")


def mount(changes: Changes | None, tools: list[dict[str, Any]] | None = None, **fields: Any) -> str:
    """The definition of a mount of the changing server."""
    address = f"mcp+stdio:{shlex.join([sys.executable, '-S', str(SERVER), json.dumps(tools or [])])}"
    fields |= {"kind": "upstream", "address": address, "era": "legacy"}
    return json.dumps(fields | ({"changes": changes} if changes else {}))


def tool(number: int, stage: int = 0) -> dict[str, Any]:
    """One tool at one stage: each stage changes another part of it."""
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    made: dict[str, Any] = {"name": f"t{number}", "description": f"Tool {number}.", "inputSchema": schema}
    for change in range(1, stage + 1):
        match (change + number) % 8:
            case 0:
                made["description"] += f" Then do step {change}."
            case 1:
                made["description"] += "\u200b" * change
            case 2:
                made["inputSchema"] = {**schema, "required": ["text"], "title": f"{change}"}
            case 3:
                made["annotations"] = {"readOnlyHint": True, "title": f"{change}"}
            case 4:
                made["name"] += f"_{change}"
            case 5:
                made["outputSchema"] = {"type": "object", "title": f"{change}"}
            case 6:
                made["icons"] = [{"src": f"https://far.example/{change}.png"}]
            case 7:
                made["title"] = f"Tool \u202e{change}"
    return made


def tools(stage: int) -> list[dict[str, Any]]:
    return [tool(number, stage) for number in range(TOOLS)]


def control(hub: Hub, server: str, **lists: Any) -> None:
    """Change the lists of a mounted server."""
    assert hub.call(server, "control", lists).text == "ran control"


def document(hub: Hub, server: str) -> PinDocument:
    found = load_pins(hub.catalogue.store, server).document
    assert found is not None
    return found


def waiting(hub: Hub, server: str) -> set[ItemKey]:
    return set(document(hub, server).waiting)


def listed(hub: Hub, server: str, path: str | None = None) -> list[dict[str, Any]]:
    """Every tool of a list, all pages."""
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        result = hub.modern(server if path is None else path, "tools/list", params).result
        found += result["tools"]
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


def rows(hub: Hub, server: str, name: str) -> list[tuple[str | None, str, str]]:
    moves = hub.catalogue.store.names.past(f"{PINNED}{server}/tool/{name}")
    return [(move.cid, move.who, move.why) for move in moves]


def without_hint(body: bytes, name: str, server: str) -> bytes:
    """An answer without the similar names that it suggests, which never contain the tool that was asked for."""
    hint = re.findall(r"[\w.]+", b"".join(HINT.findall(body)).decode())
    assert {name, f"{server}__{name}", f"{server}.{name}", f"{server}_{name}"}.isdisjoint(hint), hint
    return HINT.sub(b"", body).replace(name.encode(), b"absent")


def call_native(hub: Hub, method: str) -> tuple[str, list[str]]:
    """The error of a call over the native interface, and the methods that it suggests."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    guidance, error, _ = orjson.loads(hub.client.post("/rpc", json=message).data)["result"]["items"]
    return error["error"], guidance["available_methods"]


def as_absent(hub: Hub, server: str, name: str) -> None:
    """A held tool answers as a tool that is not there, on every way to the hub."""
    for version in ("2025-11-25", MODERN):
        for endpoint, prefix in ((server, ""), ("", f"{server}__")):
            held = hub.call(endpoint, prefix + name, {}, version)
            absent = hub.call(endpoint, prefix + "absent", {}, version)
            assert held.status == absent.status
            assert without_hint(held.body, name, server) == without_hint(absent.body, name, server)
    for method in ("get", "post"):
        held, absent = (getattr(hub.client, method)(f"/{server}/{each}") for each in (name, "absent"))
        assert held.status_code == absent.status_code
        assert without_hint(held.data, name, server) == without_hint(absent.data, name, server)
    for separator in (".", "_"):
        error, methods = call_native(hub, f"{server}{separator}{name}")
        assert (error.replace(name, "absent"), methods) == call_native(hub, f"{server}{separator}absent")
        assert name not in methods
    assert f'"{name}"' not in hub.client.get(f"/mcp/meta/{server}.json").text
    found = orjson.loads(hub.client.get(f"/search.json?q={name}").data)
    assert not [row for row in found if row["server"] == server and row["name"] == name]


def served(hub: Hub, server: str) -> set[str]:
    return {name for one in hub.catalogue.all() if one.name == server for name in one.tools}
