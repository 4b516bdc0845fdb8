"""The fold of calls: opened, cancelled, answered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from patchbay.pins.offers import PROMPT, RESOURCE, TOOL
from patchbay.rooms.folding.acl import resource_names, rules_of, shows
from patchbay.rooms.folding.checks import MAX_TEXT_CHARACTERS, Impossible, check_right, from_hub, text_of
from patchbay.rooms.folding.rights import participant_of
from patchbay.rooms.record.entry import Entry
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.rooms.record.hello import DEFAULT_PROFILE

DEFAULT_TTL_MS = 60_000
"""Milliseconds that a call without `ttlMs` may take."""

MAX_TTL_MS = 3_600_000
"""Milliseconds that any call may take."""


MAX_URI_CHARACTERS = 2048

LISTS: Mapping[str, tuple[str, str]] = {
    TOOL: ("tool", "tools"),
    RESOURCE: ("resource", "resources"),
    PROMPT: ("prompt", "prompts"),
}
"""The methods that a call may have: what each uses, and the list of a server's record that names it."""


class UnknownTool(Impossible):
    """A call of a server, or of a tool, resource or prompt, that the room does not have."""


class NoRationale(Impossible):
    """A call without a rationale in a room that evaluates its agents."""


def ttl_of(payload: Mapping[str, Any]) -> int:
    """Return how many milliseconds a call may take. Raises Impossible for a `ttlMs` that is not a number above 0."""
    ttl = payload.get("ttlMs", DEFAULT_TTL_MS)
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
        raise Impossible(f"ttlMs is {ttl!r:.40}; expected a whole number of milliseconds above 0")
    return min(ttl, MAX_TTL_MS)


def _call(state: Json, entry: Entry) -> None:
    payload, sender = entry.envelope["payload"], entry.envelope["from"]
    call, server, method = text_of(payload, "callId"), text_of(payload, "serverId"), payload.get("method", TOOL)
    if not isinstance(method, str) or method not in LISTS:
        raise Impossible(f"the method is {method!r:.40}; expected one of {', '.join(LISTS)}")
    name = text_of(payload, "name", MAX_URI_CHARACTERS if method == RESOURCE else MAX_TEXT_CHARACTERS)
    if payload.get("provider", "mcp") != "mcp":
        raise UnknownTool(f"unknown tool: {name}; the room has tools of the provider mcp")
    if call in state["calls"]:
        raise Impossible(f"the call {call} is open already; choose a new callId")
    check_right(state, entry.envelope, "call", server)
    ttl = ttl_of(payload)
    record = state["servers"].get(server)
    if record is None:
        raise UnknownTool(f"unknown server: {server}; it was not mounted or announced, or its owner has left")
    word, listed = LISTS[method]
    if name not in record.get(listed, ()) or _is_hidden(state, entry, record, method):
        raise UnknownTool(f"unknown {word}: {name}; the server {server} is {record['status']} and has no such {word}")
    key = f"{sender}/{call}"
    if state["flags"].get("eval") is True:
        if key not in state["rationales"]:
            raise NoRationale("missing-rationale: send act.rationale with this callId before the call")
        del state["rationales"][key]
    session = state["sessions"].get(sender, {"member": payload.get("caller"), "profile": DEFAULT_PROFILE})
    target = {"serverId": server, "name": name}
    target |= {"tool": record["tools"][name]} if method == TOOL else {"method": method}
    who = {"caller": sender, "member": session["member"], "profile": session["profile"], "owner": record["owner"]}
    state["calls"][call] = who | target | {"seq": entry.seq, "expires": entry.at + ttl}


def _is_hidden(state: Json, entry: Entry, record: Json, method: str) -> bool:
    """Whether the access list hides from the caller what it calls."""
    if rules_of(state) < 2:
        return False
    payload = entry.envelope["payload"]
    who = participant_of(state, entry.envelope["from"], str(payload.get("caller", "")))
    name, server = payload["name"], payload["serverId"]
    if method == RESOURCE:
        return not shows(state, server, "resources", resource_names(name, record.get("names", {}).get(name, "")), who)
    return not shows(state, server, "tools", [name], who)


def _result(state: Json, entry: Entry) -> None:
    call, record = _open(state, entry.envelope["payload"])
    sender = entry.envelope["from"]
    server = state["servers"].get(record["serverId"], {})
    if sender != HUB and (sender != record["owner"] or server.get("kind") != "announce"):
        raise Impossible(f"the call {call} is of a server of another session")
    if not isinstance(entry.envelope["payload"].get("ok"), bool):
        raise Impossible("ok is not a boolean")
    del state["calls"][call]


def _cancel(state: Json, entry: Entry) -> None:
    call, record = _open(state, entry.envelope["payload"])
    if entry.envelope["from"] not in (HUB, record["caller"]):
        raise Impossible(f"the call {call} is of another session")
    if record.get("cancelled"):
        raise Impossible(f"the call {call} is cancelled already")
    state["calls"][call] = {**record, "cancelled": True}


def _hit(state: Json, entry: Entry) -> None:
    _open(state, from_hub(entry.envelope))


def _open(state: Json, payload: Json) -> tuple[str, Json]:
    call = text_of(payload, "callId")
    found: Json | None = state["calls"].get(call)
    if found is None:
        raise Impossible(f"no call {call} is open")
    return call, found


def _violation(state: Json, entry: Entry) -> None:
    from_hub(entry.envelope)


CALL_TYPES: Mapping[str, Callable[[Json, Entry], None]] = {
    "tool.call": _call,
    "tool.result": _result,
    "tool.cancel": _cancel,
    "cache.hit": _hit,
    "guardrail.violation": _violation,
}
