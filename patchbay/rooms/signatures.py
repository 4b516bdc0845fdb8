"""Signatures of participants: checked if present, and required where the room's policy says so.

A participant signs the canonical JSON (RFC 8785) of its envelope without `sig`, with the key of its hello.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from patchbay.rooms.record.canonical import is_signed, signed_bytes
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import RoomRefused


def check_signature(state: Mapping[str, Any], session: str, rooms: Collection[str], envelope: Json) -> None:
    """Raise RoomRefused for a wrong signature, or for a missing one that the policy requires.

    `rooms` are the names of the room: what is signed is passed on as it is, so it has to name its room.
    """
    record = state["sessions"].get(session, {})
    wanted = state["policy"]["signatures"]
    kind = envelope["type"]
    if "sig" not in envelope:
        if record.get("role") in wanted["roles"] or kind in wanted["types"]:
            raise RoomRefused(f"the room's policy demands a signature of {kind} by the role {record.get('role')}")
        return
    if "key" not in record:
        raise RoomRefused("the envelope has a signature, and the session's hello has no key to check it with")
    if envelope.get("from") != session or envelope.get("room") not in rooms:
        raise RoomRefused("a signed envelope names its own session as from, and its room")
    if not is_signed(signed_bytes(envelope), envelope["sig"], record["key"]):
        raise RoomRefused("the signature is not of this envelope by the key of this session's hello")
