"""Words for the ids that the store has: who called or changed something, why, and what a name stands for."""

from __future__ import annotations

import re

from patchbay.access.principals import KEY_IDS, LOCAL_ID, OPERATOR_ID, SCHEDULE_IDS
from patchbay.topics import ROOT
from patchbay.views.hidden_characters import show_hidden_characters

_AUTHORS = {
    "start": "the start of the hub",
    "servers/": "a file in servers/",
    "command line": "the command line",
    "catalogue": "the hub",
}
_REASONS = {"boot image default": "servers that ship with the hub"}
_PARTS = {
    "servers": "server",
    "variables": "variable",
    "templates": "template",
    "served": "version of",
    "dropins": "file of",
    "lists": "lists of",
    "pins": "pins of",
    "room-offers": "offers of",
}
_BUILT = re.compile(r"built by [0-9a-f]{20,}")


def name_caller(id: str, mode: str = "") -> str:
    """Return a principal in words, with its hidden characters shown: `this machine`, `the key ci`, `ann@example.org`.

    `mode` is the access mode of the hub: every stranger of an open hub has the same id.
    """
    if id == LOCAL_ID:
        return "someone who can reach this hub" if mode == "open" else "this machine"
    if id == OPERATOR_ID:
        return "the operator"
    for begin, words in ((KEY_IDS, "the key"), (SCHEDULE_IDS, "the schedule of")):
        if id.startswith(begin):
            return f"{words} {show_hidden_characters(id.removeprefix(begin))}"
    return show_hidden_characters(id)


def name_author(who: str) -> str:
    """Return the author of a change in words."""
    return _AUTHORS.get(who) or name_caller(who)


def describe_reason(why: str) -> str:
    """Return the reason of a change, with its hidden characters shown; in words where the hub gave it."""
    if _BUILT.fullmatch(why):
        return "built"
    return _REASONS.get(why) or show_hidden_characters(why)


def name_entry(name: str) -> str:
    """Return a name of the store in words: `server echo` for `servers/echo`."""
    if name == ROOT:
        return "state of the hub"
    part, slash, own = name.partition("/")
    return f"{_PARTS[part]} {own}" if slash and part in _PARTS else name
