"""Answers that are repeated from the log: of tools that only read, for the same tool and the same arguments.

Two calls are the same when the tool's digest and the CID of the arguments are equal. The tool must have
`readOnlyHint`; the answer must be a success, still be stored, and not be older than the policy's `cache.ttlMs`. A
policy may switch this off.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from patchbay.pins.offers import TOOL
from patchbay.rooms.record.contents import content_cid, is_kept
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.log import Logged

MAX_ANSWERS = 1000
"""Limit of the answers of one room that are kept."""

MAX_OPEN = 10_000

Key = tuple[str, str, str]


class AnswerCache:
    """Finds earlier answers of one room. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, Key] = OrderedDict()
        self._answers: OrderedDict[Key, tuple[int, int]] = OrderedDict()
        self._reading: dict[str, frozenset[str]] = {}

    def find(self, state: Mapping[str, Any], call: Logged, record: Json) -> int | None:
        """Return the seq of the result that answers a call, or None."""
        policy = state["policy"]["cache"]
        cid = content_cid(call.entry.envelope)
        if not policy["enabled"] or cid is None or "tool" not in record:
            return None
        with self._lock:
            found = self._answers.get((record["serverId"], record["tool"], cid))
        if found is None or call.entry.at - found[1] > policy["ttlMs"]:
            return None
        return None if str(found[0]) in state["redacted"] else found[0]

    def notice(self, state: Mapping[str, Any], logged: Logged) -> None:
        """Keep the call of a tool that only reads, with its answer."""
        envelope = logged.entry.envelope
        payload = envelope["payload"]
        if envelope["type"] == "tool.advertise":
            tools = (logged.contents or {}).get("tools", [])
            hints = {tool["name"]: (tool.get("annotations") or {}).get("readOnlyHint") for tool in tools}
            self._reading[payload["serverId"]] = frozenset(name for name, hint in hints.items() if hint is True)
        elif envelope["type"] == "tool.call":
            self._note_call(state, envelope)
        elif envelope["type"] == "tool.result":
            with self._lock:
                key = self._asked.pop(payload["callId"], None)
                if key is not None and payload["ok"] and is_kept(envelope):
                    self._answers.setdefault(key, (logged.entry.seq, logged.entry.at))
                    if logged.entry.at - self._answers[key][1] > state["policy"]["cache"]["ttlMs"]:
                        self._answers[key] = (logged.entry.seq, logged.entry.at)
                while len(self._answers) > MAX_ANSWERS:
                    self._answers.popitem(last=False)

    def _note_call(self, state: Mapping[str, Any], envelope: Json) -> None:
        payload = envelope["payload"]
        server, cid = state["servers"].get(payload["serverId"]), content_cid(envelope)
        if payload.get("method", TOOL) != TOOL or server is None or cid is None:
            return
        if payload["name"] not in self._reading.get(payload["serverId"], ()):
            return
        digest = server["tools"].get(payload["name"])
        if digest is None:
            return
        with self._lock:
            self._asked[payload["callId"]] = (payload["serverId"], digest, cid)
            while len(self._asked) > MAX_OPEN:
                self._asked.popitem(last=False)
