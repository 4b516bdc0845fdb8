"""The fold of the servers of a room: mounted, announced, advertised, gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchbay.rooms.folding.checks import Impossible, check_right, from_hub, object_of, session_of, text_of
from patchbay.rooms.folding.rights import decide
from patchbay.rooms.folding.state import copied
from patchbay.rooms.record.entry import Entry
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.rooms.record.hello import SERVER_ID

TRANSPORTS = ("http-stream",)
"""Transport kinds that a room may mount. A program (`process`) would run code of a member on the hub."""


def _mount(state: Json, entry: Entry) -> None:
    payload = entry.envelope["payload"]
    server = _server_id(payload)
    check_right(state, entry.envelope, "mount", server)
    _check_owner(state, entry.envelope, server)
    transport = object_of(payload, "transport")
    if transport.get("kind") not in TRANSPORTS:
        raise Impossible(f"the transport is {transport.get('kind')!r:.40}; a room mounts {', '.join(TRANSPORTS)}")
    labels = payload.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise Impossible("labels are not a map of strings")
    more = {"transport": copied(transport), "labels": copied(labels)}
    more |= {"exposeTools": copied(payload.get("exposeTools", True))}
    more |= {"exposeResources": copied(payload.get("exposeResources", []))}
    more |= {name: text_of(payload, name) for name in ("manifest", "credentials") if name in payload}
    state["servers"][server] = _record(state, entry, "mount", "opening") | more


def _announce(state: Json, entry: Entry) -> None:
    server = _server_id(entry.envelope["payload"])
    check_right(state, entry.envelope, "announce", server)
    _check_owner(state, entry.envelope, server)
    state["servers"][server] = _record(state, entry, "announce", "announced")


def _record(state: Json, entry: Entry, kind: str, status: str) -> Json:
    sender = entry.envelope["from"]
    owner = {"owner": sender, "member": session_of(state, entry.envelope)["member"]}
    return {"kind": kind, **owner, "status": status, "tools": {}, "resources": [], "seq": entry.seq}


def _advertise(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    record = _find_server(state, payload)
    digests = object_of(payload, "digests")
    lists = {name: payload.get(name, []) for name in ("uris", "promptNames")}
    for name, found in lists.items():
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise Impossible(f"{name} are not a list of strings")
    more = {"tools": copied(digests), "resources": copied(lists["uris"]), "status": "ready", "advert": entry.seq}
    more |= {"prompts": copied(lists["promptNames"])} if lists["promptNames"] else {}
    more |= {"names": copied(object_of(payload, "uriNames"))} if "uriNames" in payload else {}
    before = {name: value for name, value in record.items() if name not in ("prompts", "names")}
    state["servers"][payload["serverId"]] = {**before, **more}


def _fail(state: Json, entry: Entry) -> None:
    payload = from_hub(entry.envelope)
    state["servers"][payload["serverId"]] = {**_find_server(state, payload), "status": "failed"}


def _unmount(state: Json, entry: Entry) -> None:
    payload = entry.envelope["payload"]
    record = _find_server(state, payload)
    if entry.envelope["from"] != HUB:
        member = session_of(state, entry.envelope)["member"]
        if member != record["member"] and not decide(state, entry.envelope["from"], "policy"):
            raise Impossible(f"the server {payload['serverId']} belongs to another member")
    del state["servers"][payload["serverId"]]


def _server_id(payload: Json) -> str:
    server = text_of(payload, "serverId")
    if not SERVER_ID.fullmatch(server) or "__" in server:
        raise Impossible(f"the serverId is {server!r:.80}; expected 1 to 64 of A-Z a-z 0-9 _ . - without __")
    return server


def _find_server(state: Json, payload: Json) -> Json:
    found: Json | None = state["servers"].get(text_of(payload, "serverId"))
    if found is None:
        raise Impossible(f"the room has no server {payload['serverId']!r:.80}")
    return found


def _check_owner(state: Json, envelope: Json, server: str) -> None:
    record = state["servers"].get(server)
    if record is not None and record["member"] != session_of(state, envelope)["member"]:
        raise Impossible(f"the server {server} belongs to another member; choose another serverId")


SERVER_TYPES: Mapping[str, Callable[[Json, Entry], None]] = {
    "mcp.mount": _mount,
    "mcp.announce": _announce,
    "tool.advertise": _advertise,
    "mcp.mount.failed": _fail,
    "mcp.unmount": _unmount,
}
