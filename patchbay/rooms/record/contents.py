"""Contents beside the chain: the content of an envelope, stored apart from the entry of its log.

The log has the envelope with the CID of its contents in their place. The contents stand in a journal topic of their
own for each envelope, so that a redaction drops them and the chain of CIDs still holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.envelope import CONTENT_BYTES, CONTENT_CID, MARKS, PASSING, WITHHELD, Json
from patchbay.store import Journal
from patchbay.topics import ROOM_CONTENTS

CONTENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("room.create", "room.rules", "room.policy", "room.flags", "room.member", "room.redact"), ()),
    **dict.fromkeys(("presence.join", "presence.part", "caps.update", "mcp.mount", "mcp.unmount"), ()),
    **dict.fromkeys(("mcp.mount.failed", "mcp.replaced", "guardrail.violation", "cache.hit", "tool.cancel"), ()),
    **dict.fromkeys(("mcp.announce", "tool.advertise"), ("tools", "resources", "prompts")),
    "tool.call": ("args",),
    "tool.result": ("result", "error", "resources"),
    "act.rationale": ("rationale", "evidence"),
    "act.intent": ("intents", "justification", "scope"),
}
"""The fields of a payload that are contents, by the type of the envelope. For other types, the whole payload."""


def split(envelope: Json, profile: str = "") -> tuple[Json, Json | None]:
    """Return the envelope as the log has it, and its contents (None where it has none).

    Under the profile `ephemeral` the contents are marked as passing and no exported log has them. Under `ghost` the
    log does not have their CID either.
    """
    payload = envelope["payload"]
    fields = CONTENT_FIELDS.get(envelope["type"], tuple(payload))
    contents = {name: payload[name] for name in fields if name in payload}
    if not contents:
        return envelope, None
    data = canonical_bytes(contents)
    mark: Json = {WITHHELD: True} if profile == "ghost" else {CONTENT_CID: cid_of(data), CONTENT_BYTES: len(data)}
    mark |= {PASSING: True} if profile == "ephemeral" else {}
    rest = {name: value for name, value in payload.items() if name not in contents}
    return {**envelope, "payload": {**rest, **mark}}, contents


def join(envelope: Json, contents: Json | None) -> Json:
    """Return a logged envelope with its contents in place; without contents, as it is logged."""
    if contents is None:
        return envelope
    rest = {name: value for name, value in envelope["payload"].items() if name not in MARKS}
    return {**envelope, "payload": {**rest, **contents}}


def content_cid(envelope: Json) -> str | None:
    """Return the CID of the contents of a logged envelope, or None."""
    found = envelope["payload"].get(CONTENT_CID)
    return found if isinstance(found, str) else None


def is_kept(envelope: Json) -> bool:
    """Whether the contents of a logged envelope are kept: they are neither passing nor withheld."""
    return content_cid(envelope) is not None and PASSING not in envelope["payload"]


def content_size(envelope: Json) -> int:
    """Return the number of bytes of the contents of a logged envelope, 0 without contents."""
    found = envelope["payload"].get(CONTENT_BYTES)
    return found if isinstance(found, int) else 0


class Contents:
    """The contents of one room's envelopes in the store, by the id of the envelope."""

    def __init__(self, journal: Journal, room: str) -> None:
        self._journal = journal
        self._prefix = f"{ROOM_CONTENTS}{room}/"

    def topic(self, envelope_id: str) -> str:
        """Return the journal topic of one envelope's contents."""
        return self._prefix + envelope_id

    def get(self, envelope_id: str) -> Json | None:
        """Return contents; None if they were redacted or have expired."""
        rows = self._journal.read(self.topic(envelope_id), limit=1)
        found: Any = orjson.loads(rows[0].data) if rows else None
        return found if isinstance(found, dict) else None

    def drop(self, envelope_id: str) -> bool:
        """Delete contents; return whether there were any."""
        return self._journal.trim(self.topic(envelope_id), 0) > 0
