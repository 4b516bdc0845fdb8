"""The way `key`: each caller stores a key, a user name and a password, or other values on a page of the hub.

The configuration names the fields and where each value goes: a header, a pair of the query, or a variable of the
caller's own process of a program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from patchbay.caller_accounts.connecting import ConnectedAccounts
from patchbay.caller_accounts.credentials import KEY, CallerCredential, StoredAccount, Upstream
from patchbay.caller_accounts.fields import (
    BASIC,
    BEARER,
    VALUE,
    CredentialField,
    Place,
    make_request_parts,
    make_variables,
)
from patchbay.caller_accounts.way import Fields, Reach, Way
from patchbay.client.addresses.targets import Stdio
from patchbay.client.auth.methods import FixedCredential, list_secret_texts
from patchbay.errors import ConfigError

MAX_FIELDS = 10

PLACES: tuple[Place, ...] = ("header", "query", "variable")

_OF_THE_HUB = re.compile(
    r"cookie2?|host|connection|content-.*|transfer-encoding|te|trailer|upgrade|mcp-.*|accept(-.*)?"
)
"""Names in lower case of headers that the hub sets itself."""

_OF_THE_START = re.compile(r"PATH|HOME|SHELL|USER|LOGNAME|TMPDIR|LD_.*|DYLD_.*|PYTHON.*|NODE_.*|BASH_.*|ENV|IFS")
"""Variables that decide how a program starts: a caller could run own code with them."""


class StoredKeys(ConnectedAccounts):
    """The keys that callers have stored."""

    def convert(self, account: StoredAccount, upstream: Upstream) -> CallerCredential | None:
        """Return the credential of an account that has a value for each field."""
        try:
            if isinstance(upstream.target, Stdio):
                variables = make_variables(upstream.fields, account.values)
                hidden = list_secret_texts([*variables.values(), *account.values.values()])
                return CallerCredential(account.principal, account.id, environment=variables, secrets=hidden)
            parts = make_request_parts(upstream.fields, account.values)
        except KeyError:  # the configuration has another field by now
            return None
        source = FixedCredential(parts, upstream.label)
        return CallerCredential(account.principal, account.id, source, secrets=parts.secrets)


def read_fields(fields: Fields, reach: Reach) -> tuple[CredentialField, ...]:
    """Return the fields that callers fill in; those of a configuration that names none are BEARER."""
    given = fields.get("fields")
    if given is None:
        return () if reach == "program" else (BEARER,)
    return tuple(_read_field(one) for one in given)


def _read_field(one: Mapping[str, Any]) -> CredentialField:
    place = next(each for each in PLACES if each in one)
    return CredentialField(one["name"], place, one[place], one.get("format", VALUE), one.get("title", ""))


def _check(fields: Fields, reach: Reach, where: str) -> None:
    given = fields.get("fields")
    if given is None and reach in ("program", "profile"):
        raise ConfigError(
            where, "fields", 'expected what callers enter, such as [{"name": "token", "variable": "API_TOKEN"}]'
        )
    if given is not None and not 0 < len(given) <= MAX_FIELDS:
        raise ConfigError(where, "fields", f"expected 1 to {MAX_FIELDS} fields")
    for number, one in enumerate(given or ()):
        _check_field(one, reach, where, f"fields.{number}")
    found = read_fields(fields, reach)
    if len({one.name for one in found}) < len(found):
        raise ConfigError(where, "fields", "expected a name of its own for each field")
    if len({(one.place, one.target.lower()) for one in found}) < len(found):
        raise ConfigError(where, "fields", "expected another header, query or variable in each field")
    fixed = {("header", name.lower()) for name in fields.get("headers", {})}
    fixed |= {("variable", name.lower()) for name in fields.get("environment", {})}
    for one in found:
        if (one.place, one.target.lower()) in fixed:
            raise ConfigError(where, "fields", f"expected no {one.target} of the hub beside that of each caller")


def _check_field(one: Mapping[str, Any], reach: Reach, where: str, path: str) -> None:
    named = [place for place in PLACES if place in one]
    wanted = "variable" if reach == "program" else "header or query"
    if len(named) != 1:
        raise ConfigError(where, path, "expected one of header, query and variable")
    place = named[0]
    if (place == "variable") != (reach == "program") and reach != "profile":
        raise ConfigError(where, f"{path}.{place}", f"expected {wanted}: a program gets variables, a URL requests")
    target, form = one[place], one.get("format", VALUE)
    if place == "header" and _OF_THE_HUB.fullmatch(target.lower()):
        raise ConfigError(where, f"{path}.header", f"expected a header of the server; the hub sets {target} itself")
    if place == "variable" and _OF_THE_START.fullmatch(target.upper()):
        raise ConfigError(where, f"{path}.variable", f"expected a variable of the program; {target} decides its start")
    if form == BASIC and (place, target.lower()) != ("header", "authorization"):
        raise ConfigError(where, f"{path}.format", f'expected "{BASIC}" only for the header Authorization')
    if form != BASIC and form.count(VALUE) != 1:
        raise ConfigError(where, f"{path}.format", f'expected "{BASIC}", or a text with {VALUE} once: "Bearer {VALUE}"')


WAY = Way(KEY, "each caller stores a key of their own on a page of the hub", frozenset({"fields"}), _check, StoredKeys)
