"""The access list of a room, `acl` of its policy: who sees and uses which entries of which servers.

The list is empty, and limits nothing; or it is a list of rules. A rule has lists of patterns (`*`, `?`, `[...]`):

| Field       | Matched against                                                        | Without the field         |
| ----------- | ---------------------------------------------------------------------- | ------------------------- |
| `servers`   | the id of the server                                                   | every server              |
| `roles`     | the role of the participant                                            | see below                 |
| `members`   | the name of the participant in the room                                | see below                 |
| `tools`     | the name of a tool or a prompt                                         | every tool and prompt     |
| `resources` | the URI of a resource, the URI without its scheme, and its name        | every resource            |

A rule admits a participant whose role matches `roles` or whose name matches `members`; with neither field it admits
everyone. A participant may mount, announce or use a server if a rule for that server admits it; it sees and uses the
entries that the rules which admit it show. What no rule shows is hidden.

Rooms of the first version of the rules (`rules_of`) take `roles` and `members` as exact names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from patchbay.rooms.record.envelope import Json

RULES = 2
"""The version of the rules by which new entries are folded.

1: `roles` and `members` are exact names, and a call is not checked against `tools` and `resources`.
2: they are patterns, and a call of an entry that the list hides from its caller cannot follow.
"""

Listed = Literal["tools", "resources"]

_SPECIAL = re.compile(r"([*?[])")


@dataclass(frozen=True, slots=True)
class Participant:
    """Who asks: a role, and a name in the room."""

    role: str
    member: str


def rules_of(state: Mapping[str, Any]) -> int:
    """Return the version of the rules by which the next entry of a room is folded."""
    return int(state.get("rules", 1))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of some patterns (`*`, `?`, `[...]`)."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_limited(state: Mapping[str, Any]) -> bool:
    """Whether the room has an access list."""
    return bool(state["policy"].get("acl"))


def admits(state: Mapping[str, Any], server: str, who: Participant) -> bool:
    """Whether a participant may mount, announce or use a server."""
    return not is_limited(state) or bool(_rules_for(state, server, who))


def shows(
    state: Mapping[str, Any], server: str, listed: Listed, names: Sequence[str], who: Participant | None = None
) -> bool:
    """Whether a participant sees an entry of a server; without one, whether some participant could.

    `names` are those of a tool or prompt (one), or of a resource (`resource_names`).
    """
    if not is_limited(state):
        return True
    rules = _rules_for(state, server, who)
    return any(matches(name, rule.get(listed, ["*"])) for rule in rules for name in names)


def resource_names(uri: str, name: str = "") -> list[str]:
    """Return what the patterns for a resource are matched against."""
    return [one for one in (uri, uri.partition(":")[2].removeprefix("//"), name) if one]


def _rules_for(state: Mapping[str, Any], server: str, who: Participant | None) -> list[Json]:
    rules = [rule for rule in state["policy"]["acl"] if matches(server, rule.get("servers", ["*"]))]
    if who is None:
        return rules
    has_patterns = rules_of(state) > 1
    return [rule for rule in rules if _admits(rule, who, has_patterns)]


def _admits(rule: Json, who: Participant, has_patterns: bool) -> bool:
    if "roles" not in rule and "members" not in rule:
        return True
    for value, patterns in ((who.role, rule.get("roles", ())), (who.member, rule.get("members", ()))):
        if matches(value, patterns) if has_patterns else value in patterns:
            return True
    return False


def with_exact_names(rules: Sequence[Json]) -> tuple[list[Json], list[str]]:
    """Return rules of the first version for the second one: their `roles` and `members` match the same names as before.

    Returns also the places whose patterns were made exact, such as `acl[0].roles`.
    """
    made, places = [], []
    for number, rule in enumerate(rules):
        changed = dict(rule)
        for field in ("roles", "members"):
            if field in rule:
                changed[field] = [_SPECIAL.sub(r"[\1]", text) for text in rule[field]]
                places += [f"acl[{number}].{field}"] if changed[field] != rule[field] else []
        made.append(changed)
    return made, places
