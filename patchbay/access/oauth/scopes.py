"""The scopes of this hub's tokens: an action, or `action:pattern` for some servers and tools, such as `call:notes.*`.

A scope narrows what a client may do for a person, and never widens it. Scopes that the hub does not have are left out
of a token, which says what it has.
Source: RFC 6749, section 3.3.
"""

from __future__ import annotations

from patchbay.access.decisions import MAX_SCOPE_CHARACTERS, is_scope
from patchbay.boot.grants import CALL, READ, SEE
from patchbay.errors import InvalidParams

SCOPES = {
    SEE: "see tools, resources and prompts, and their descriptions",
    CALL: "call tools",
    READ: "read resources and get prompts",
}
"""What a client may do with each scope, for people."""

MAX_SCOPES = 20


def parse_scopes(text: str | None) -> tuple[str, ...]:
    """Return the known scopes of a request, sorted; all actions for a request that names no scope of the hub.

    Raises InvalidParams for a request that names scopes of the hub, none of which can be read: it asked for less than
    all.
    """
    names = (text or "").split()
    asked = {name for name in names if is_scope(name) and name.isascii()}
    if not asked and (broken := [name for name in names if name.partition(":")[0] in SCOPES]):
        raise InvalidParams(
            f"the scope {broken[0][:40]!r} cannot be read: expected an action and a pattern, such as call:notes.*,"
            f" of at most {MAX_SCOPE_CHARACTERS} characters"
        )
    return tuple(sorted(asked)[:MAX_SCOPES]) or tuple(SCOPES)


def names_scope(name: str) -> bool:
    """Whether a name of a request means a scope of the hub, also if it cannot be read."""
    return is_scope(name) or name.partition(":")[0] in SCOPES


def describe_scope(scope: str) -> str:
    """Return what a client may do with a scope, as a part of a sentence."""
    action, _, pattern = scope.partition(":")
    return SCOPES[action] + (f", only of {pattern}" if pattern else "")
