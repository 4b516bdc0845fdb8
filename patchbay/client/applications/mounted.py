"""An entry of an application and the mounts that a hub has: which one serves it already, and how it is renewed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from patchbay.client.applications.references import variable_name

Fields = Mapping[str, Any]
"""The fields of a mount's definition."""

_OF_AN_ENTRY = frozenset(
    (
        *("kind", "address", "headers", "account", "oauth", "environment"),
        *("title", "description", "timeout", "listing", "enabled"),
    )
)
"""The fields that come from the entry. All others of a mount are the user's own, and stay when it is renewed."""

_PAIRS = ("environment", "headers")
_ONE_REFERENCE = re.compile(r"([A-Za-z]+ +)?\$\{[^}]*\}")


def find_mount(names: Sequence[str], fields: Fields, mounted: Mapping[str, Fields]) -> str:
    """Return the name of the mount that serves an entry already; "" when no mount does.

    It has the address of the entry, and one of these names or the same variables and headers: mounts of one program
    with other values are other servers. A value that is a reference in one of the two may be the other's value.
    """
    found = [one for one, has in mounted.items() if has.get("address") == fields["address"]]
    own = [name for name in names if name in found]
    return next(iter([*own, *(one for one in found if _may_equal(mounted[one], fields))]), "")


def is_outdated(mount: Fields, fields: Fields) -> bool:
    """Whether a mount differs from its entry only in references that an import once made of values that stay now.

    Then nothing in it was changed by hand, and it may be written anew without a question.
    """
    has, given = ({key: value for key, value in one.items() if key not in _PAIRS} for one in (mount, fields))
    if has != given or not _may_equal(mount, fields):
        return False
    changed = [
        (name, value, fields[key][name])
        for key in _PAIRS
        for name, value in mount.get(key, {}).items()
        if value != fields[key][name]
    ]
    return bool(changed) and all(_is_made(name, old) and not _is_reference(new) for name, old, new in changed)


def renew_mount(mount: Fields, fields: Fields) -> dict[str, Any]:
    """Return the definition of an entry that is imported again, with the fields of the mount that no entry has."""
    return {**fields, **{key: value for key, value in mount.items() if key not in _OF_AN_ENTRY}}


def _may_equal(mount: Fields, fields: Fields) -> bool:
    for key in _PAIRS:
        has, given = mount.get(key, {}), fields.get(key, {})
        if not isinstance(has, Mapping) or set(has) != set(given):
            return False
        if any(has[one] != given[one] and not (_is_reference(has[one]) or _is_reference(given[one])) for one in has):
            return False
    return True


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and bool(_ONE_REFERENCE.fullmatch(value))


def _is_made(name: str, value: str) -> bool:
    """Whether a value is a reference as an import names it: after its own name, or after the server's and its own."""
    found = _ONE_REFERENCE.fullmatch(value)
    return bool(found) and value.endswith(f"{variable_name(name)}}}")
