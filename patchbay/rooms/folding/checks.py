"""The error of the fold, and checks that several types share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.rooms.folding.rights import Action, decide
from patchbay.rooms.record.envelope import HUB, Json

MAX_TEXT_CHARACTERS = 512


class Impossible(Exception):
    """An entry that the rules of the log do not allow here; the fold turns it into a WrongLog with the entry's seq."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def from_hub(envelope: Json) -> Json:
    """Return the payload of an envelope that only the hub may send. Raises Impossible."""
    if envelope["from"] != HUB:
        raise Impossible(f"only the hub sends {envelope['type']}")
    payload: Json = envelope["payload"]
    return payload


def session_of(state: Mapping[str, Any], envelope: Json) -> Json:
    """Return the record of the session that sent an envelope. Raises Impossible."""
    found: Json | None = state["sessions"].get(envelope["from"])
    if found is None:
        raise Impossible(f"the session {envelope['from']} is not in the room")
    return found


def check_right(state: Mapping[str, Any], envelope: Json, action: Action, about: str = "") -> None:
    """Raise Impossible unless the sender may do this."""
    decision = decide(state, envelope["from"], action, about, str(envelope["payload"].get("caller", "")))
    if not decision:
        raise Impossible(decision.reason)


def text_of(payload: Mapping[str, Any], name: str, max_characters: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a required text of a payload. Raises Impossible."""
    found = payload.get(name)
    if not isinstance(found, str) or not found or len(found) > max_characters:
        raise Impossible(f"{name} is {found!r:.80}; expected a string of 1 to {max_characters} characters")
    return found


def object_of(payload: Mapping[str, Any], name: str) -> Json:
    """Return a required object of a payload. Raises Impossible."""
    found = payload.get(name)
    if not isinstance(found, dict):
        raise Impossible(f"{name} is not an object")
    return found
