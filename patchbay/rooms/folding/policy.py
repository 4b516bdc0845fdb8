"""The form of a policy, checked before it takes effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.rooms.folding.checks import Impossible
from patchbay.rooms.folding.state import DEFAULT_POLICY, HISTORY, OWNER, POWERS
from patchbay.rooms.record.hello import PROFILES

MAX_RULES, MAX_PATTERNS, MAX_ROLES = 256, 256, 32


def check_policy(policy: Mapping[str, Any]) -> None:
    """Raise Impossible for a policy with a missing part, an unknown part or a wrong value."""
    if set(policy) != set(DEFAULT_POLICY):
        wrong = sorted(set(policy) ^ set(DEFAULT_POLICY))[0]
        raise Impossible(f"the policy has a missing or unknown field: {wrong}; expected {', '.join(DEFAULT_POLICY)}")
    _need(policy["join"] in ("public", "invite"), "join", "public or invite")
    _need(policy["history"] in HISTORY, "history", ", ".join(HISTORY))
    _need(_are_of(policy["profiles"], PROFILES) and policy["profiles"], "profiles", f"some of {', '.join(PROFILES)}")
    roles = policy["roles"]
    known = isinstance(roles, dict) and len(roles) <= MAX_ROLES and all(_are_of(one, POWERS) for one in roles.values())
    _need(
        known and set(DEFAULT_POLICY["roles"]) <= set(roles),
        "roles",
        "each role with its powers, the usual ones included",
    )
    _need("policy" in roles[OWNER], "roles.owner", "the power policy, without which no policy could be changed again")
    _check_rules(policy["acl"])
    wanted = policy["signatures"]
    named = isinstance(wanted, dict) and set(wanted) == {"roles", "types"} and all(map(_are_texts, wanted.values()))
    _need(named, "signatures", "lists of roles and types")
    cache = policy["cache"]
    ttl = cache.get("ttlMs") if isinstance(cache, dict) else None
    _need(isinstance(ttl, int) and not isinstance(ttl, bool) and 0 <= ttl <= 86_400_000, "cache.ttlMs", "0 to 86400000")
    _need(set(cache) == {"enabled", "ttlMs"} and isinstance(cache["enabled"], bool), "cache", "enabled and ttlMs")
    _need(isinstance(policy["gateway"], bool), "gateway", "true or false")


def check_role(policy: Mapping[str, Any], role: Any) -> None:
    """Raise Impossible for a role that the room does not have."""
    if not isinstance(role, str) or role not in policy["roles"]:
        raise Impossible(f"the role is {role!r:.40}; expected one of {', '.join(policy['roles'])}")


def _check_rules(rules: Any) -> None:
    _need(isinstance(rules, list) and len(rules) <= MAX_RULES, "acl", f"a list of at most {MAX_RULES} rules")
    keys = {"servers", "roles", "members", "tools", "resources"}
    for place, rule in enumerate(rules):
        fine = isinstance(rule, dict) and set(rule) <= keys and all(map(_are_texts, rule.values()))
        _need(fine, f"acl[{place}]", f"lists of patterns under {', '.join(sorted(keys))}")


def _need(condition: Any, where: str, expected: str) -> None:
    if not condition:
        raise Impossible(f"the policy's {where} is wrong; expected {expected}")


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and len(found) <= MAX_PATTERNS and all(isinstance(one, str) for one in found)


def _are_of(found: Any, known: tuple[str, ...]) -> bool:
    return _are_texts(found) and set(found) <= set(known)
