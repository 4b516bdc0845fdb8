"""The ways in which servers behind this hub get a credential of each caller, one module each."""

from __future__ import annotations

from collections.abc import Mapping

from patchbay.caller_accounts.credentials import CALLER, KEY, SIGN_IN, ExchangeTerms
from patchbay.caller_accounts.way import CredentialWay, Fields, Reach, Way, WayContext, WaySettings
from patchbay.caller_accounts.ways import assertion, exchange, forward, key, sign_in
from patchbay.errors import ConfigError

WAYS: dict[str, Way] = {row.name: row for row in (sign_in.WAY, key.WAY, forward.WAY, exchange.WAY, assertion.WAY)}

WAY_FIELDS = ("way", "fields", "forward", "trust", "oauth")
"""The fields of a configuration that belong to `"account": "caller"`."""


def read_way(fields: Fields, reach: Reach, where: str) -> WaySettings | None:
    """Return how a mounted server gets the credentials of callers; None where it gets the hub's. Raises ConfigError."""
    if fields.get("account") != CALLER:
        for name in WAY_FIELDS:
            if name in fields:
                raise ConfigError(where, name, f'expected only beside "account": "{CALLER}"')
        return None
    chosen = fields.get("way", SIGN_IN)
    row = WAYS.get(chosen)
    if row is None:
        raise ConfigError(where, "way", f"expected one of {', '.join(WAYS)}")
    for name in WAY_FIELDS[1:]:
        if name in fields and name not in row.fields:
            others = [each.name for each in WAYS.values() if name in each.fields]
            raise ConfigError(where, name, f'expected only with "way": "{others[0]}"; this is "{chosen}"')
    row.check(fields, reach, where)
    entered = key.read_fields(fields, reach) if chosen == KEY else ()
    return WaySettings(chosen, entered, tuple(fields.get("forward", ())), fields.get("trust", ""))


def read_terms(oauth: Mapping[str, str]) -> ExchangeTerms:
    """Return where a token for a server is made of the caller's own, by the field `oauth` with its variables."""
    return ExchangeTerms(
        issuer=oauth.get("issuer", ""),
        audience=oauth.get("audience", ""),
        identity_client_id=oauth.get("identity_client_id", ""),
        identity_client_secret=oauth.get("identity_client_secret", ""),
    )


def open_way(context: WayContext) -> CredentialWay:
    """Return the way of a mount."""
    return WAYS[context.settings.name].open(context)
