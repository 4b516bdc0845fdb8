"""The way `sign-in`: each caller signs in at the authorization server of the mounted server, in a browser (OAuth)."""

from __future__ import annotations

from patchbay.caller_accounts.connecting import ConnectedAccounts
from patchbay.caller_accounts.credentials import HUB, SIGN_IN, CallerCredential, StoredAccount, Upstream
from patchbay.caller_accounts.way import Fields, Reach, Way
from patchbay.client.auth.methods import BearerTokens
from patchbay.errors import ConfigError

CLIENT_FIELDS = ("client_id", "client_secret", "scope")
"""The fields of `oauth` for an MCP server, which names its authorization server itself."""


class SignInAccounts(ConnectedAccounts):
    """The accounts at which callers have signed in."""

    def convert(self, account: StoredAccount, upstream: Upstream) -> CallerCredential | None:
        """Return the credential of an account with tokens."""
        if account.tokens is None:
            return None
        return CallerCredential(account.principal, account.id, BearerTokens(account.tokens))


def _check(fields: Fields, reach: Reach, where: str) -> None:
    if reach == "program":
        raise ConfigError(
            where, "account", f'expected {HUB} for a program, or "way": "key": only the server at a URL gets tokens'
        )
    for name in fields.get("oauth", {}) if reach != "api" else ():
        if name not in CLIENT_FIELDS:
            raise ConfigError(where, f"oauth.{name}", f"expected only {', '.join(CLIENT_FIELDS)} for an MCP server")
    if any(name.lower() == "authorization" for name in fields.get("headers", {})):
        raise ConfigError(where, "headers", "expected no header Authorization: each caller's own token is sent in it")


WAY = Way(SIGN_IN, "each caller signs in there in a browser", frozenset({"oauth"}), _check, SignInAccounts)
