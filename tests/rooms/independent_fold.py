"""Folds an exported log of a room without any code of Patchbay: written from the description of the format alone.

    python independent_fold.py FILE

Prints a JSON object: the number of entries, the head and the CID of the state. It exits with 1 and names the entry for
a log whose chain, signatures or contents are wrong. Needs the standard library and `cryptography`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PASSING = ("ephemeral", "ghost")
LONGEST_MS, USUAL_MS = 3_600_000, 60_000


def canonical(value: Any) -> bytes:
    """RFC 8785 for values without fractions and without names beyond the basic plane, which is all that is used."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def cid(data: bytes) -> str:
    """CIDv1, raw, sha2-256, base32."""
    head = bytes((1, 0x55, 0x12, 0x20))
    return "b" + base64.b32encode(head + hashlib.sha256(data).digest()).decode().lower().rstrip("=")


class Broken(Exception):
    """A log that is wrong at one entry."""


class State:
    """The room's state, changed entry by entry."""

    def __init__(self) -> None:
        names = ("policy", "flags", "members", "sessions", "servers", "calls", "rationales", "redacted")
        self.all: dict[str, Any] = {name: {} for name in names}
        self.all |= {"name": "", "creator": "", "key": "", "salt": "", "predecessor": None}

    def take(self, entry: dict[str, Any]) -> None:
        """Change the state by one entry."""
        envelope = entry["envelope"]
        method = getattr(self, "on_" + envelope["type"].replace(".", "_"), None)
        if method is not None:
            method(entry, envelope["from"], envelope["payload"])

    def on_room_create(self, entry: Any, sender: str, said: Any) -> None:
        for name in ("name", "creator", "key", "salt", "predecessor", "policy", "flags", "members"):
            self.all[name] = said[name]
        if "rules" in said:
            self.all["rules"] = said["rules"]

    def on_room_rules(self, entry: Any, sender: str, said: Any) -> None:
        if sender != "hub":
            return
        self.all["rules"] = said["rules"]
        for rule in self.all["policy"]["acl"]:
            for field in ("roles", "members"):
                if field in rule:
                    rule[field] = ["".join(f"[{one}]" if one in "*?[" else one for one in text) for text in rule[field]]

    def on_presence_join(self, entry: Any, sender: str, said: Any) -> None:
        record = self.all["members"].setdefault(said["member"], {"role": None, "powers": []})
        record.setdefault("joined", entry["seq"])
        record["membership"] = "joined"
        session = {name: said[name] for name in ("member", "role", "profile", "caps", "agent", "key") if name in said}
        self.all["sessions"][said["session"]] = session | {"revision": 0, "joined": entry["seq"]}

    def on_presence_part(self, entry: Any, sender: str, said: Any) -> None:
        session = self.all["sessions"].pop(said["session"])
        servers, rationales = self.all["servers"], self.all["rationales"]
        self.all["servers"] = {id: one for id, one in servers.items() if one["owner"] != said["session"]}
        begin = said["session"] + "/"
        self.all["rationales"] = {key: seq for key, seq in rationales.items() if not key.startswith(begin)}
        member = session["member"]
        remains = [one for one in self.all["sessions"].values() if one["member"] == member]
        if session["profile"] in PASSING and not remains and self.all["members"][member]["role"] is None:
            del self.all["members"][member]

    def on_caps_update(self, entry: Any, sender: str, said: Any) -> None:
        self.all["sessions"][said["session"]] |= {"caps": said["caps"], "revision": said["revision"]}

    def on_room_policy(self, entry: Any, sender: str, said: Any) -> None:
        self.all["policy"] = said["policy"]

    def on_room_flags(self, entry: Any, sender: str, said: Any) -> None:
        flags = {**self.all["flags"], **said["flags"]}
        self.all["flags"] = {name: value for name, value in flags.items() if value is not None}

    def on_room_member(self, entry: Any, sender: str, said: Any) -> None:
        usual: dict[str, Any] = {"membership": "left", "role": None, "powers": []}
        record = self.all["members"].setdefault(said["member"], usual)
        for name, value in usual.items():
            record.setdefault(name, value)
        if said.get("membership") is not None:
            record["membership"] = said["membership"]
            if said["membership"] == "invited":
                record.setdefault("invited", entry["seq"])
        if "role" in said:
            record["role"] = said["role"]
        if "powers" in said:
            record["powers"] = sorted(said["powers"])
        if said.get("role") is not None:
            for session in self.all["sessions"].values():
                if session["member"] == said["member"]:
                    session["role"] = said["role"]

    def on_room_redact(self, entry: Any, sender: str, said: Any) -> None:
        self.all["redacted"][str(said["seq"])] = entry["seq"]

    def on_act_rationale(self, entry: Any, sender: str, said: Any) -> None:
        if self.all["flags"].get("eval") is True:
            self.all["rationales"][f"{sender}/{said['callId']}"] = entry["seq"]

    def server(self, entry: Any, sender: str, kind: str, status: str) -> dict[str, Any]:
        """The record of a new server."""
        member = self.all["sessions"][sender]["member"]
        record = {"kind": kind, "owner": sender, "member": member, "status": status, "seq": entry["seq"]}
        return record | {"tools": {}, "resources": []}

    def on_mcp_announce(self, entry: Any, sender: str, said: Any) -> None:
        self.all["servers"][said["serverId"]] = self.server(entry, sender, "announce", "announced")

    def on_mcp_mount(self, entry: Any, sender: str, said: Any) -> None:
        record = self.server(entry, sender, "mount", "opening")
        record |= {"transport": said["transport"], "labels": said.get("labels", {})}
        record |= {"exposeTools": said.get("exposeTools", True), "exposeResources": said.get("exposeResources", [])}
        record |= {name: said[name] for name in ("manifest", "credentials") if name in said}
        self.all["servers"][said["serverId"]] = record

    def on_mcp_unmount(self, entry: Any, sender: str, said: Any) -> None:
        del self.all["servers"][said["serverId"]]

    def on_mcp_mount_failed(self, entry: Any, sender: str, said: Any) -> None:
        self.all["servers"][said["serverId"]]["status"] = "failed"

    def on_tool_advertise(self, entry: Any, sender: str, said: Any) -> None:
        more = {"tools": said["digests"], "resources": said["uris"], "status": "ready", "advert": entry["seq"]}
        if said.get("promptNames"):
            more["prompts"] = said["promptNames"]
        if "uriNames" in said:
            more["names"] = said["uriNames"]
        for name in ("prompts", "names"):
            self.all["servers"][said["serverId"]].pop(name, None)
        self.all["servers"][said["serverId"]] |= more

    def on_tool_call(self, entry: Any, sender: str, said: Any) -> None:
        server = self.all["servers"][said["serverId"]]
        session = self.all["sessions"].get(sender)
        record = {"serverId": said["serverId"], "name": said["name"]}
        is_tool = said.get("method", "tools/call") == "tools/call"
        record |= {"tool": server["tools"][said["name"]]} if is_tool else {"method": said["method"]}
        record |= {"caller": sender, "owner": server["owner"], "seq": entry["seq"]}
        record["member"] = session["member"] if session else said["caller"]
        record["profile"] = session["profile"] if session else "pseudonymous"
        record["expires"] = entry["at"] + min(said.get("ttlMs", USUAL_MS), LONGEST_MS)
        self.all["rationales"].pop(f"{sender}/{said['callId']}", None) if self.all["flags"].get(
            "eval"
        ) is True else None
        self.all["calls"][said["callId"]] = record

    def on_tool_cancel(self, entry: Any, sender: str, said: Any) -> None:
        self.all["calls"][said["callId"]]["cancelled"] = True

    def on_tool_result(self, entry: Any, sender: str, said: Any) -> None:
        del self.all["calls"][said["callId"]]


def fold_lines(lines: Iterable[bytes]) -> dict[str, Any]:
    """The number of entries, the head and the state's CID. Raises Broken for a log that is wrong."""
    state, head, count = State(), "", 0
    public = None
    for line in lines:
        count += 1
        found = json.loads(line)
        entry = found["entry"]
        if canonical(found) != line or entry["seq"] != count or (entry["prev"] or "") != head:
            raise Broken(f"entry {count}: not canonical, or not in its place")
        if public is None:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(entry["envelope"]["payload"]["key"]))
        signed = canonical({name: value for name, value in entry.items() if name != "sig"})
        try:
            public.verify(base64.b64decode(entry["sig"]), signed)
        except InvalidSignature as problem:
            raise Broken(f"entry {count}: wrong signature") from problem
        if "content" in found and cid(canonical(found["content"])) != entry["envelope"]["payload"].get("__enso_cid__"):
            raise Broken(f"entry {count}: wrong contents")
        state.take(entry)
        head = cid(canonical(entry))
    return {"entries": count, "head": head, "state": cid(canonical(state.all))}


def main() -> None:
    """Fold the file that the command line names."""
    with Path(sys.argv[1]).open("rb") as file:
        try:
            sys.stdout.write(json.dumps(fold_lines(line.rstrip(b"\n") for line in file)))
        except Broken as problem:
            raise SystemExit(str(problem)) from problem


if __name__ == "__main__":
    main()
