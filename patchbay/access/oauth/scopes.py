"""The scopes of this hub's tokens: an action, or `action:pattern` for some servers and tools, such as `call:notes.*`.

A scope narrows what a client may do for a person, and never widens it. Scopes that the hub does not have are left out
of a token, which says what it has.
Source: RFC 6749, section 3.3.
"""

from __future__ import annotations

from patchbay.access.decisions import is_scope
from patchbay.boot.grants import CALL, READ, SEE

SCOPES = {
    SEE: "see tools, resources and prompts, and their descriptions",
    CALL: "call tools",
    READ: "read resources and get prompts",
}
"""What a client may do with each scope, for people."""

MAX_SCOPES = 20


def parse_scopes(text: str | None) -> tuple[str, ...]:
    """Return the known scopes of a request, sorted; all actions for a request without a known scope."""
    asked = {name for name in (text or "").split() if is_scope(name) and name.isascii()}
    return tuple(sorted(asked)[:MAX_SCOPES]) or tuple(SCOPES)


def describe_scope(scope: str) -> str:
    """Return what a client may do with a scope, as a part of a sentence."""
    action, _, pattern = scope.partition(":")
    return SCOPES[action] + (f", only of {pattern}" if pattern else "")
