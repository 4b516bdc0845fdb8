"""The fields that callers fill in for a server (`"way": "key"`), and what their values become: headers, pairs of the
query, or variables of a program.

Sources: RFC 6750, section 2.1 (Bearer); RFC 7617 (Basic); OpenAPI 3.1.1, Security Scheme Object (`apiKey`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from patchbay.client.addresses.targets import check_headers
from patchbay.client.auth.methods import RequestParts
from patchbay.errors import InvalidParams

Place = Literal["header", "query", "variable"]

VALUE = "{}"
"""Where the value stands in a format."""

BASIC = "basic"
"""The format of a user name and a password in the header Authorization."""

USER, PASSWORD = "user", "password"
"""The parts of a field of the format BASIC."""

MAX_VALUE_CHARACTERS = 8192
"""Maximum characters of one value that a caller stores."""


@dataclass(frozen=True, slots=True)
class CredentialField:
    """One field: its value goes into the header, the query or the variable `target`, in `format` (VALUE, or BASIC)."""

    name: str
    place: Place
    target: str
    format: str = VALUE
    title: str = ""

    @property
    def label(self) -> str:
        """The field for people."""
        return self.title or self.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the values that a caller enters."""
        return (f"{self.name}.{USER}", f"{self.name}.{PASSWORD}") if self.format == BASIC else (self.name,)

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text for the target. Raises KeyError for a missing value."""
        found = [values[name] for name in self.inputs]
        if self.format == BASIC:
            return f"Basic {b64encode(':'.join(found).encode()).decode()}"
        return self.format.replace(VALUE, found[0])


BEARER = CredentialField("token", "header", "Authorization", f"Bearer {VALUE}")
"""The field of a server at a URL whose configuration names none."""


def make_request_parts(fields: Iterable[CredentialField], values: Mapping[str, str]) -> RequestParts:
    """Return what requests carry for stored values. Raises KeyError for a missing value."""
    filled = [(one.place, one.target, one.fill(values)) for one in fields]
    return RequestParts(
        {target: text for place, target, text in filled if place == "header"},
        tuple((target, text) for place, target, text in filled if place == "query"),
        frozenset(values.values()),
    )


def make_variables(fields: Iterable[CredentialField], values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program for stored values. Raises KeyError for a missing value."""
    return {one.target: one.fill(values) for one in fields if one.place == "variable"}


def check_values(fields: Iterable[CredentialField], given: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a caller entered. Raises InvalidParams, which names the field and never shows a value."""
    found: dict[str, str] = {}
    for one in fields:
        for name in one.inputs:
            found[name] = _check_value(one, name, given.get(name, ""))
        if one.place == "header":
            check_headers({one.target: one.fill(found)}, one.label)
    return found


def _check_value(one: CredentialField, name: str, text: str) -> str:
    value = text.strip()
    part = name.removeprefix(one.name).removeprefix(".")
    label = f"{one.label} ({part})" if part else one.label
    if not value:
        raise InvalidParams(f"{label}: expected a value")
    if len(value) > MAX_VALUE_CHARACTERS:
        raise InvalidParams(f"{label}: expected at most {MAX_VALUE_CHARACTERS} characters; this has {len(value)}")
    if not value.isprintable():
        raise InvalidParams(f"{label}: expected printable characters on one line")
    if part == USER and ":" in value:
        raise InvalidParams(f"{label}: expected no colon in a user name (RFC 7617)")
    return value
