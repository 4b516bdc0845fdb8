"""One decision: may a principal do an action on an object? Everything that lists, calls, reads or shows asks it.

`rights_of` gathers what a document grants to one principal; `Rights.decide` and `decide` are pure functions of that.
A principal's scopes narrow its rights and never widen them. A denial wins over every grant, except that the operator's
own token is never denied anything.
Source: RFC 6749, section 3.3 (scopes); the variable `access` is described in `patchbay/boot/access.schema.json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

import orjson

from patchbay.access.principals import Principal, is_group_name
from patchbay.boot.grants import ACTIONS, CALL, OPERATE, READ, SEE, Grant, Grants
from patchbay.patterns.entries import EVERYTHING
from patchbay.patterns.uri_spellings import covers_any_spelling, covers_every_spelling

USE = (SEE, CALL, READ)
"""The actions that a principal has on everything when no document restricts it."""

MAX_SCOPE_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Object:
    """What an action is done on: a server, one entry of it (a name, a URI or a URI template), or, without a server, the
    hub itself.
    """

    server: str = ""
    entry: str = ""


HUB = Object()
"""The hub itself: what only the pattern `*` covers."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an action is allowed, and the row or rule that says so."""

    allowed: bool
    because: str

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class _Rule:
    """The patterns of one row that apply to one principal.

    A URI is denied when one of its spellings is covered, and given when all of them are.
    """

    place: str
    may: tuple[str, ...]
    on: tuple[str, ...]
    asks: bool = False
    is_denial: bool = False

    def covers(self, action: str, server: str, entry: str) -> bool:
        """Whether this rule covers an action on an object; the hub itself is covered by `*` alone."""
        if action not in self.may:
            return False
        if not server:
            return EVERYTHING in self.on
        covers = covers_any_spelling if self.is_denial else covers_every_spelling
        return any(covers(pattern, server, entry) for pattern in self.on)


class Rights:
    """What one principal may do. Principals with the same `digest` may do the same. Safe to use from many threads."""

    def __init__(
        self, grants: Iterable[_Rule], denials: Iterable[_Rule], scopes: tuple[_Rule, ...] | None, is_operator: bool
    ) -> None:
        self._grants = tuple(grants)
        self._denials = tuple(denials)
        self._scopes = scopes
        self._is_operator = is_operator
        parts = [
            [[rule.may, rule.on, rule.asks] for rule in rules] for rules in (self._grants, self._denials, scopes or ())
        ]
        self.digest = sha256(orjson.dumps([parts, scopes is None, is_operator])).hexdigest()
        granted = {action for rule in self._grants if EVERYTHING in rule.on for action in rule.may}
        self.is_unlimited = (is_operator or (not self._denials and granted.issuperset(USE))) and scopes is None
        """Whether the principal may see and use everything."""
        self.document: str | None = None
        """The CID of the document that grants the rights; None without one."""
        self._of_server: dict[str, Rights] = {}

    def allows(self, action: str, server: str, entry: str = "") -> bool:
        """Whether an action on an entry of a server (or, without one, on the server as a whole) is allowed."""
        return self.is_unlimited or self.decide(action, Object(server, entry)).allowed

    def decide(self, action: str, about: Object) -> Decision:
        """Decide about an action on an object, and say why."""
        if self._scopes is not None and not any(
            rule.covers(action, about.server, about.entry) for rule in self._scopes
        ):
            return Decision(False, "no scope of the credentials gives it")
        if self._is_operator:
            return Decision(True, "the operator may do everything")
        for rule in self._denials:
            if rule.covers(action, about.server, about.entry):
                return Decision(False, rule.place)
        for rule in self._grants:
            if rule.covers(action, about.server, about.entry):
                return Decision(True, rule.place)
        return Decision(False, "no grant gives it")

    def asks_for_approval(self, server: str, entry: str) -> bool:
        """Whether every grant that gives the call of a tool wants an approval if the tool may destroy something."""
        giving = [rule.asks for rule in self._grants if rule.covers(CALL, server, entry)]
        return bool(giving) and all(giving) and not self._is_operator

    def forbids(self, server: str, entry: str) -> bool:
        """Whether a denial forbids an entry of a server, whatever is granted."""
        return not self._is_operator and any(rule.covers(READ, server, entry) for rule in self._denials)

    def concerns(self, server: str) -> bool:
        """Whether a grant can cover something on a server that is not here, and no denial covers it as a whole."""
        denied = any(rule.covers(SEE, server, "") for rule in self._denials)
        return self._is_operator or (not denied and any(_about(self._grants, server)))

    @property
    def operates(self) -> bool:
        """Whether the principal is an administrator."""
        return self.decide(OPERATE, HUB).allowed

    def operates_toolset(self, name: str) -> bool:
        """Whether the principal may make and change the toolset of a name."""
        return self.decide(OPERATE, Object(name)).allowed

    def operated_names(self) -> list[str]:
        """Return the names of the toolsets that grants let the principal make and change, apart from `*`."""
        names = dict.fromkeys(name for rule in self._grants if OPERATE in rule.may for name in rule.on)
        return sorted(name for name in names if name != EVERYTHING and self.operates_toolset(name))

    def only_about(self, server: str) -> Rights:
        """Return the rights on one server: the rules that can cover something on it. Cheap for each of many entries."""
        known = self._of_server.get(server)
        if known is None:
            scopes = None if self._scopes is None else tuple(_about(self._scopes, server))
            grants, denials = _about(self._grants, server), _about(self._denials, server)
            known = self._of_server[server] = Rights(grants, denials, scopes, self._is_operator)
        return known


def _about(rules: Iterable[_Rule], server: str) -> Iterable[_Rule]:
    """Yield the rules with those of their patterns that can cover something on a server."""
    for rule in rules:
        on = tuple(pattern for pattern in rule.on if _may_concern(pattern, server))
        if on:
            yield replace(rule, on=on)


def _may_concern(pattern: str, server: str) -> bool:
    """Whether a pattern can cover something on a server: False only where its first letters exclude that."""
    literal = pattern
    for letter in "*?[":
        literal = literal.partition(letter)[0]
    return server.startswith(literal) or literal.startswith(server)


UNLIMITED = Rights([_Rule("no variable `access`", USE, (EVERYTHING,))], (), None, False)
"""The rights of every principal without a document, a scope or the operator's proof."""


def rights_of(principal: Principal, grants: Grants | None) -> Rights:
    """Return what a principal may do under a document; without one, it may see and use everything."""
    scopes = None if principal.scopes is None else tuple(_scope_rules(principal.scopes))
    if grants is None:
        rules = [_Rule("no variable `access`", USE, (EVERYTHING,))]
        return Rights(rules, (), scopes, principal.is_operator)
    denied = [
        _Rule(row.place, ACTIONS, row.on, is_denial=True)
        for row in grants.denials
        if _is_denied_by(row, principal, grants)
    ]
    granted = [
        _Rule(row.place, _actions_of(row), row.on, row.asks) for row in grants.grants if _is_for(row, principal, grants)
    ]
    rights = Rights(granted, denied, scopes, principal.is_operator)
    rights.document = grants.cid
    return rights


def _actions_of(row: Grant) -> tuple[str, ...]:
    """Return the actions of a grant; who operates something may see and use it too."""
    return ACTIONS if OPERATE in row.may else row.may


def _is_for(row: Grant, principal: Principal, grants: Grants) -> bool:
    return any(is_member(principal, name, grants) for name in row.to)


def _is_denied_by(row: Grant, principal: Principal, grants: Grants) -> bool:
    """Whether a denial means a principal: also through a group that an issuer asserts, whatever its name."""
    return _is_for(row, principal, grants) or not principal.groups.isdisjoint(row.to)


def is_member(principal: Principal, name: str, grants: Grants) -> bool:
    """Whether a name in `to` gives something to this principal: everybody, a group of the document, a group that an
    issuer asserts, or its id.

    A group of the document has its listed members only: an issuer cannot add members to it, and its name is not the
    id of a principal. A group of an issuer with the name of a key, of the operator or of a person of an issuer gives
    nothing.
    """
    if name == EVERYTHING:
        return True
    members = grants.groups.get(name)
    if members is not None:
        return principal.id in members
    return principal.id == name or (name in principal.groups and is_group_name(name))


def decide(principal: Principal, action: str, about: Object, grants: Grants | None) -> Decision:
    """Decide whether a principal may do an action on an object, under a document (None: without one)."""
    return rights_of(principal, grants).decide(action, about)


def is_scope(text: str) -> bool:
    """Whether a text is a scope of this hub: an action, or `action:pattern`, such as `call:notes.*`."""
    action, colon, pattern = text.partition(":")
    good = bool(pattern) and not any(letter.isspace() for letter in pattern) if colon else True
    return action in USE and good and len(text) <= MAX_SCOPE_CHARACTERS


@lru_cache(maxsize=1024)
def _scope_rules(scopes: frozenset[str]) -> list[_Rule]:
    """Return the rules of some scopes. A scope of another kind gives nothing."""
    parts = [scope.partition(":") for scope in sorted(scopes) if is_scope(scope)]
    return [_Rule(f"scope {action}{colon}{on}", (action,), (on or EVERYTHING,)) for action, colon, on in parts]
