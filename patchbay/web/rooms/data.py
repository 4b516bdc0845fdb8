"""A room as plain values for its page: members, servers, tools, the entries of its log, and its calls over time.

Members write names, texts and arguments. Every text that this module gives to a template has its hidden characters
shown; the template escapes it. JSON values go through the filter `pretty`, which does both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from patchbay.pins.offers import SEPARATOR, SERVER_PREFIX
from patchbay.rooms.folding.rights import powers_of
from patchbay.rooms.record.contents import join
from patchbay.rooms.record.envelope import HUB
from patchbay.rooms.room import Room
from patchbay.views.hidden_characters import show_hidden_characters
from patchbay.web.site.data import describe_tool

Json = dict[str, Any]

MAX_SHOWN_ITEMS = 100
"""Sessions and tools on the page of a room, at most, of each."""

MAX_SENTENCE = 300
"""Characters of the text of one entry in the list of entries; the entry itself has all of it."""

MIN_BAR_PERCENT = 1.5
"""The shortest bar of a call, in percent of the drawing."""


def summarize_state(state: Mapping[str, Any]) -> Json:
    """Return the numbers of a room: its members with a session, its sessions, servers, tools and open calls."""
    sessions, servers = state["sessions"], state["servers"]
    return {
        "members": len({one["member"] for one in sessions.values()}),
        "sessions": len(sessions),
        "servers": len(servers),
        "tools": sum(len(one["tools"]) for one in servers.values() if one["status"] == "ready"),
        "open_calls": len(state["calls"]),
        "join": state["policy"]["join"],
        "history": state["policy"]["history"],
    }


def list_sessions(state: Mapping[str, Any]) -> list[Json]:
    """Return the sessions of a room, in the order in which they joined, at most MAX_SHOWN_ITEMS."""
    found = sorted(state["sessions"].items(), key=lambda item: item[1]["joined"])[:MAX_SHOWN_ITEMS]
    return [
        {
            "session": id,
            "member": _text(one["member"]),
            "name": _session_name(one),
            "role": _text(one["role"]),
            "profile": one["profile"],
            "joined": one["joined"],
            "caps": [_text(cap) for cap in one["caps"]],
            "powers": sorted(powers_of(state, one["member"], one["role"])),
            "servers": [name for name, record in state["servers"].items() if record["owner"] == id],
        }
        for id, one in found
    ]


def list_servers(state: Mapping[str, Any]) -> list[Json]:
    """Return the servers that members mount or announce: id, kind, status, owner, number of tools."""
    return [
        {
            "id": id,
            "kind": one["kind"],
            "status": one["status"],
            "owner": _session_name(state["sessions"].get(one["owner"], {"member": one["member"]})),
            "tools": len(one["tools"]),
            "url": _text(str(one.get("transport", {}).get("url", ""))),
        }
        for id, one in sorted(state["servers"].items())
    ]


def list_tools(room: Room, reader: str | None = None) -> list[Json]:
    """Return the tools of a room as its MCP server lists them, at most MAX_SHOWN_ITEMS, each with its `owner`.

    `reader` is the principal that sees them; None is the operator, who sees all.
    """
    server, state = f"{SERVER_PREFIX}{room.name}", room.state_now
    found = []
    for place, one in enumerate(room.tools(reader)[:MAX_SHOWN_ITEMS], 1):
        name = f"{one.server_id}{SEPARATOR}{one.name}"
        wire = {**one.descriptor.wire, "name": name}
        record = state["servers"].get(one.server_id, {})
        owner = state["sessions"].get(record.get("owner"), {"member": one.member})
        shown = describe_tool(server, replace(one.descriptor, name=name, wire=wire), place)
        found.append(shown | {"server_id": one.server_id, "owner": _session_name(owner), "digest": one.digest})
    return found


def list_entries(room: Room, lines: Iterable[bytes]) -> list[Json]:
    """Return lines of the exported log (`Room.lines`) as rows: `seq`, `at` (Unix seconds), `type`, `who`, `sentence`
    and the whole `envelope`. A mark of withheld entries is one row of the type `withheld`.
    """
    names = {id: _session_name(one) for id, one in room.state_now["sessions"].items()}
    found = []
    for line in lines:
        row = orjson.loads(line)
        found.append(_withheld(row["withheld"]) if "withheld" in row else _entry(row, names, room.state_now))
    return found


def _entry(row: Json, names: dict[str, str], state: Mapping[str, Any]) -> Json:
    entry = row["entry"]
    envelope = join(entry["envelope"], row.get("content"))
    kind, payload, sender = envelope["type"], envelope["payload"], envelope["from"]
    if kind == "presence.join":
        names[payload["session"]] = _session_name(payload)
    about = payload.get("session") if kind in ("presence.join", "presence.part", "caps.update") else None
    who = "hub" if sender == HUB and about is None else names.get(about or sender, f"session {(about or sender)[:8]}")
    return {
        "seq": entry["seq"],
        "at": entry["at"] / 1000,
        "type": _text(kind),
        "who": who,
        "sentence": _text(_sentence(kind, payload)),
        "redacted": str(entry["seq"]) in state["redacted"],
        "envelope": envelope,
    }


def _withheld(mark: Json) -> Json:
    sentence = f"Entries {mark['from']} to {mark['to']} are withheld: {mark.get('reason', '')}."
    return {
        **{"seq": mark["to"], "at": None, "type": "withheld", "who": "hub", "sentence": sentence},
        **{"redacted": False, "envelope": {}},
    }


def _sentence(kind: str, payload: Mapping[str, Any]) -> str:
    """Return what an envelope says, in a few words; empty for a type whose name says it."""
    made = _SENTENCES.get(kind)
    if made is not None:
        return str(made(payload))
    text = payload.get("text")
    return text if isinstance(text, str) else ""


def _created(payload: Mapping[str, Any]) -> str:
    before = payload.get("predecessor")
    return f"the room goes on from entry {before['seq']} of another room" if before else "the room begins"


def _called(payload: Mapping[str, Any]) -> str:
    arguments = orjson.dumps(payload["args"]).decode() if "args" in payload else ""
    return f"{payload['serverId']} {payload['name']} {arguments}"


def _parted(payload: Mapping[str, Any]) -> str:
    gone = ", ".join(payload.get("servers", ()))
    return f"left: {payload.get('reason', '')}" + (f"; the servers that are gone: {gone}" if gone else "")


def _describe_answer(payload: Mapping[str, Any]) -> str:
    if payload.get("ok"):
        return "ok"
    error = payload.get("error")
    return f"failed: {error}" if isinstance(error, str) else "failed"


def _advertised(payload: Mapping[str, Any]) -> str:
    names = ", ".join(payload["digests"])
    return f"{payload['serverId']} offers {names or 'no tools'}"


_SENTENCES: Mapping[str, Any] = {
    "room.create": _created,
    "presence.join": lambda payload: f"joined as {payload['role']}, {payload['profile']}",
    "presence.part": _parted,
    "caps.update": lambda payload: "capabilities: " + ", ".join(map(str, payload.get("caps", []))),
    "mcp.announce": lambda payload: f"shares the server {payload['serverId']}",
    "mcp.mount": lambda payload: f"mounts the server {payload['serverId']} from {payload['transport'].get('url', '')}",
    "mcp.mount.failed": lambda payload: f"{payload['serverId']}: {payload.get('error', '')}",
    "mcp.replaced": lambda payload: f"{payload['serverId']}: {payload.get('reason', '')}",
    "mcp.unmount": lambda payload: f"removes the server {payload['serverId']}",
    "tool.advertise": _advertised,
    "tool.call": _called,
    "tool.result": _describe_answer,
    "room.rules": lambda payload: f"the rules {payload['rules']} of rooms hold from here on",
    "room.redact": lambda payload: f"takes the contents of entry {payload['seq']} away",
    "room.member": lambda payload: f"{payload['member']}: {payload.get('membership') or payload.get('role') or ''}",
    "guardrail.violation": lambda payload: str(payload.get("reason", "")),
}


def draw_calls(entries: Sequence[Json], max_calls: int) -> list[Json]:
    """Return the newest calls of some entries (oldest first), newest first: who, what, how it ended, and its bar.

    `x` and `width` are in percent of the time from the first of these calls to the newest entry; `ms` is None for a
    call that is open, whose bar goes on to the right edge.
    """
    calls: dict[str, Json] = {}
    for row in entries:
        payload = row["envelope"].get("payload", {})
        call = calls.get(payload.get("callId", ""))
        if row["type"] == "tool.call":
            calls[payload["callId"]] = {
                **{
                    "call": payload["callId"],
                    "seq": row["seq"],
                    "who": row["who"],
                    "begin": row["at"],
                    "end": None,
                    "outcome": "open",
                },
                **{"server": payload["serverId"], "tool": _text(payload["name"]), "error": "", "cached": False},
            }
        elif call is not None and row["type"] == "cache.hit":
            call["cached"] = True
        elif call is not None and row["type"] == "tool.result":
            failed = not payload.get("ok")
            error = payload.get("error") if failed else ""
            call |= {"end": row["at"], "outcome": "failed" if failed else "worked"}
            call["error"] = _text(error) if isinstance(error, str) else ""
    found = list(calls.values())[-max_calls:]
    if not found:
        return []
    first, last = found[0]["begin"], entries[-1]["at"]
    span = max(last - first, 0.001)
    for one in found:
        width = max(((one["end"] or last) - one["begin"]) / span * 100, MIN_BAR_PERCENT)
        one["x"] = min((one["begin"] - first) / span * 100, 100 - MIN_BAR_PERCENT)
        one["width"] = min(width, 100 - one["x"])
        one["ms"] = None if one["end"] is None else (one["end"] - one["begin"]) * 1000
    return found[::-1]


def _session_name(session: Mapping[str, Any]) -> str:
    """Return the name of a session for people: its agent with the first letters of the member's pseudonym."""
    agent = session.get("agent") or {}
    kind, _, pseudonym = str(session.get("member", "")).partition("-")
    is_pseudonym = kind in ("member", "ghost") and bool(pseudonym)
    member = f"{kind}-{pseudonym[:6]}" if is_pseudonym else str(session.get("member", ""))
    if not agent.get("name"):
        return _text(member)
    return _text(f"{agent['name']} ({pseudonym[:6] if is_pseudonym else member})")


def _text(text: str) -> str:
    shown = text if len(text) <= MAX_SENTENCE else text[:MAX_SENTENCE] + "…"
    return show_hidden_characters(shown)
