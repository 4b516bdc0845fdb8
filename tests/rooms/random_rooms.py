"""Logs of made-up rooms: many entries of every type, each of which may follow the ones before it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.state import DEFAULT_POLICY, copied
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.contents import is_kept, split
from patchbay.rooms.record.entry import Entry, make_entry
from patchbay.rooms.record.errors import WrongLog

Json = dict[str, Any]
BEGIN = 1_700_000_000_000
MOST_SESSIONS = 40
SERVERS = [f"server-{number}" for number in range(8)]
CAPS = ["tool.call", "tool.host", "mcp.client", "can.text.stream", *(f"mcp.server:{name}" for name in SERVERS)]
MEMBERS = [f"member-{number:02d}" for number in range(30)]


class RandomRoom:
    """Makes entries at random, the same for the same seed. `fold` is folded as it goes."""

    def __init__(self, seed: int, signer: Signer) -> None:
        self.fold = Fold()
        self._random = random.Random(seed)
        self._signer = signer
        self._count = 0

    def entries(self, count: int) -> Iterator[tuple[Entry, Json | None]]:
        """Yield so many entries, each with its contents."""
        while self.fold.seq < count:
            made = self._made()
            if made is not None:
                yield made

    def _made(self) -> tuple[Entry, Json | None] | None:
        sender, kind, payload = self._create() if self.fold.seq == 0 else self._random.choice(self._kinds())()
        self._count += 1
        id = str(UUID(int=self._random.getrandbits(128), version=4))
        ts = "2026-11-22T12:00:00Z"
        envelope: Json = {"id": id, "ts": ts, "room": "random", "from": sender, "kind": "event", "type": kind}
        session = self.fold.now["sessions"].get(sender, {})
        slim, contents = split({**envelope, "payload": payload}, session.get("profile", ""))
        at = BEGIN + self._count * 7
        entry = make_entry(self._signer, self.fold.seq + 1, self.fold.head or None, at, slim)
        try:
            self.fold.apply(entry)
        except WrongLog:
            return None  # it may not follow: another one is tried
        return entry, contents if is_kept(slim) else None

    def _kinds(self) -> list[Callable[[], tuple[str, str, Json]]]:
        many = len(self.fold.now["sessions"]) >= MOST_SESSIONS
        joins = [self._part] * 3 if many else [self._join] * 3 + [self._part]
        calls = [self._call] * 6 + [self._result] * 6 + [self._cancel, self._hit, self._violation]
        servers = [self._mount, self._announce, self._announce, *[self._advertise] * 3, self._unmount, self._fail]
        rules = [self._caps, self._flags, self._policy, self._member, self._redact, self._rationale]
        return [*joins, *calls, *servers, *rules, *[self._chat] * 8]

    def _create(self) -> tuple[str, str, Json]:
        members = {MEMBERS[0]: {"membership": "joined", "role": "owner", "powers": []}}
        payload = {"name": "random", "creator": MEMBERS[0], "key": self._signer.public, "salt": "s", "flags": {}}
        return (
            "hub",
            "room.create",
            payload | {"policy": copied(DEFAULT_POLICY), "members": members, "predecessor": None},
        )

    def _join(self) -> tuple[str, str, Json]:
        profile = self._random.choice(["persistent", "pseudonymous", "pseudonymous", "ephemeral", "ghost"])
        member = f"ghost-{self._count}" if profile == "ghost" else self._random.choice(MEMBERS)
        role = (self.fold.now["members"].get(member) or {}).get("role") or self._random.choice(["human", "agent"])
        caps = self._random.sample(CAPS, self._random.randint(4, len(CAPS)))
        payload: Json = {
            "session": f"session-{self._count}",
            "member": member,
            "profile": profile,
            "role": role,
            "caps": caps,
        }
        agent = {"agent": {"name": "robot", "version": "1"}} if profile in ("persistent", "pseudonymous") else {}
        return "hub", "presence.join", payload | agent

    def _session(self) -> str:
        return str(self._random.choice(list(self.fold.now["sessions"]) or ["hub"]))

    def _owner(self) -> str:
        sessions = self.fold.now["sessions"].items()
        return next((str(id) for id, one in sessions if one["role"] == "owner"), self._session())

    def _server(self) -> str:
        return str(self._random.choice(list(self.fold.now["servers"]) or SERVERS))

    def _open(self) -> str:
        return str(self._random.choice(list(self.fold.now["calls"]) or ["none"]))

    def _part(self) -> tuple[str, str, Json]:
        return "hub", "presence.part", {"session": self._session(), "reason": "left"}

    def _caps(self) -> tuple[str, str, Json]:
        session = self._session()
        revision = self.fold.now["sessions"].get(session, {}).get("revision", 0) + 1
        caps = self._random.sample(CAPS, self._random.randint(4, len(CAPS)))
        return "hub", "caps.update", {"session": session, "caps": caps, "revision": revision}

    def _flags(self) -> tuple[str, str, Json]:
        name = self._random.choice(["topic", "eval", "colour"])
        value = self._random.choice([None, self._count]) if name != "eval" else self._random.choice([None, None, True])
        return self._owner(), "room.flags", {"flags": {name: value}}

    def _policy(self) -> tuple[str, str, Json]:
        policy = copied(DEFAULT_POLICY)
        policy["history"] = self._random.choice(["joined", "invited", "all"])
        policy["cache"] = {"enabled": self._random.random() < 0.5, "ttlMs": self._random.randint(0, 1000)}
        return self._owner(), "room.policy", {"policy": policy}

    def _member(self) -> tuple[str, str, Json]:
        payload: Json = {"member": self._random.choice(MEMBERS[1:])}
        choice = self._random.random()
        if choice < 0.4:
            payload["membership"] = self._random.choice(["invited", "joined", "left"])
        elif choice < 0.7:
            payload["role"] = self._random.choice(["human", "agent", None])
        else:
            payload["powers"] = self._random.sample(["redact", "flags", "mount"], self._random.randint(0, 3))
        return self._owner(), "room.member", payload

    def _redact(self) -> tuple[str, str, Json]:
        return self._owner(), "room.redact", {"seq": self._random.randint(1, self.fold.seq)}

    def _rationale(self) -> tuple[str, str, Json]:
        return self._session(), "act.rationale", {"callId": f"call-{self._count + 1}", "rationale": "because"}

    def _mount(self) -> tuple[str, str, Json]:
        transport = {"kind": "http-stream", "url": f"https://mcp.example/{self._count}"}
        payload: Json = {"serverId": self._random.choice(SERVERS), "transport": transport, "labels": {"env": "test"}}
        return (
            self._session(),
            "mcp.mount",
            payload | self._random.choice([{}, {"exposeTools": ["a*"]}, {"credentials": "acme"}]),
        )

    def _announce(self) -> tuple[str, str, Json]:
        return self._session(), "mcp.announce", {"serverId": self._random.choice(SERVERS), "tools": [], "resources": []}

    def _advertise(self) -> tuple[str, str, Json]:
        digests = {name: f"digest-{self._random.randint(0, 9)}" for name in self._random.sample("abcdef", 3)}
        payload = {"provider": "mcp", "serverId": self._server(), "tools": [], "digests": digests, "uris": ["a://b"]}
        prompts: Json = {"prompts": [{"name": "p"}], "promptNames": ["p"]}
        payload |= self._random.choice([{}, prompts])
        return "hub", "tool.advertise", payload

    def _unmount(self) -> tuple[str, str, Json]:
        return self._random.choice(["hub", self._session()]), "mcp.unmount", {"serverId": self._server()}

    def _fail(self) -> tuple[str, str, Json]:
        return "hub", "mcp.mount.failed", {"serverId": self._server(), "error": "away"}

    def _call(self) -> tuple[str, str, Json]:
        server = self._server()
        tools = list(self.fold.now["servers"].get(server, {}).get("tools", {})) or ["none"]
        payload: Json = {"callId": f"call-{self._count}", "provider": "mcp", "serverId": server}
        uses: list[Json] = [{"name": self._random.choice(tools)}] * 3
        uses += [{"name": "a://b", "method": "resources/read"}, {"name": "p", "method": "prompts/get"}]
        payload |= {
            **self._random.choice(uses),
            "args": {"n": self._count},
            "ttlMs": self._random.randint(1, 9999),
        }
        if self._random.random() < 0.2:
            return "hub", "tool.call", payload | {"caller": self._random.choice(MEMBERS)}
        return self._session(), "tool.call", payload

    def _result(self) -> tuple[str, str, Json]:
        call = self._open()
        owner = self.fold.now["calls"].get(call, {}).get("owner", "hub")
        payload = {"callId": call, "ok": self._random.random() < 0.9, "result": {"n": self._count}}
        return self._random.choice(["hub", owner]), "tool.result", payload

    def _cancel(self) -> tuple[str, str, Json]:
        call = self._open()
        return self.fold.now["calls"].get(call, {}).get("caller", "hub"), "tool.cancel", {"callId": call}

    def _hit(self) -> tuple[str, str, Json]:
        return "hub", "cache.hit", {"callId": self._open(), "seq": 1}

    def _violation(self) -> tuple[str, str, Json]:
        return "hub", "guardrail.violation", {"session": "x", "callId": "y", "reason": "missing-rationale"}

    def _chat(self) -> tuple[str, str, Json]:
        return self._session(), "chat.msg", {"text": f"Grüße {self._count}", "room": "random"}
