"""The outside issuers that the operator names, and what the hub expects of their tokens.

`load_issuer` and `load_assertion_issuers` read the settings at the start of the hub; wrong values stop the start.
Sources: RFC 8414, section 2 (issuer identifier); RFC 9068, section 2; RFC 7662, section 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from patchbay.config import REFERENCE, resolved
from patchbay.errors import ConfigError
from patchbay.settings import SHARED, Settings

TOKEN_TYPES = ("at+jwt", "JWT")
"""The values of the header `typ` that the setting `token_types` may allow."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""The characters of a scope (RFC 6749, section 3.3)."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """One authorization server outside the hub.

    `url` is its issuer identifier, compared exactly. `audiences` are accepted besides the URLs of the hub.
    `required_scopes` must be in every token. `groups_claim` names the claim with the groups; dots lead into objects.
    `token_types` are the accepted values of the header `typ`. `private_hosts` are hosts that the metadata may name
    although their addresses are not public. `client_id` and `client_secret` are for introspection, empty without it.
    `setting` is where the operator named it, for messages.
    """

    url: str
    audiences: frozenset[str] = frozenset()
    required_scopes: tuple[str, ...] = ()
    groups_claim: str = "groups"
    token_types: frozenset[str] = frozenset(("at+jwt",))
    private_hosts: frozenset[str] = frozenset()
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    setting: str = "--issuer"

    @property
    def has_introspection(self) -> bool:
        """Whether the hub may ask the issuer about opaque tokens."""
        return bool(self.client_id)

    def is_safe(self, url: str) -> bool:
        """Whether the hub may send secrets to this URL: https, or http to loopback or to a named private host."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "https" or (
            parts.scheme == "http" and (is_loopback_host(host) or host in self.private_hosts)
        )


def load_issuer(settings: Settings, environ: Mapping[str, str]) -> Issuer | None:
    """Return the issuer of the settings, None without one. `environ` holds the variable of the secret.

    Raises ConfigError with the name of the wrong setting.
    """
    if not settings.issuer:
        return None
    issuer = Issuer(
        url=settings.issuer,
        audiences=frozenset(settings.audiences),
        required_scopes=settings.required_scopes,
        groups_claim=settings.groups_claim,
        token_types=frozenset(settings.token_types),
        private_hosts=frozenset(settings.issuer_hosts),
        client_id=settings.introspection_id,
        client_secret=_load_secret(settings, environ),
    )
    check_issuer_url(issuer)
    if not issuer.token_types:
        raise ConfigError("--token-types", "", f"expected {' or '.join(TOKEN_TYPES)}, or both; found no value")
    if not all(_SCOPE.fullmatch(scope) for scope in issuer.required_scopes):
        raise ConfigError("--required-scopes", "", "expected scopes of ASCII without spaces, quotes and backslashes")
    return issuer


def load_assertion_issuers(settings: Settings) -> tuple[Issuer, ...]:
    """Return the issuers whose identity assertions the hub's authorization server takes; none without the setting.

    Raises ConfigError for a wrong URL, and for a hub that has no authorization server.
    """
    setting = "--assertion-issuers"
    if settings.assertion_issuers and settings.mode != SHARED:
        raise ConfigError(setting, "", "identity assertions sign people in: expected --access shared beside it")
    if settings.assertion_issuers and settings.issuer:
        raise ConfigError(setting, "", "expected no --issuer beside it: with an outside issuer the hub gives no tokens")
    issuers = tuple(
        Issuer(url, groups_claim=settings.groups_claim, private_hosts=frozenset(settings.issuer_hosts), setting=setting)
        for url in settings.assertion_issuers
    )
    for issuer in issuers:
        check_issuer_url(issuer)
    return issuers


def is_loopback_host(host: str) -> bool:
    """Whether a host name or address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_issuer_url(issuer: Issuer) -> None:
    """Check the URL of an issuer. Raises ConfigError, which names the setting."""
    try:
        parts = urlsplit(issuer.url)
        _ = parts.port
    except ValueError as problem:
        raise ConfigError(issuer.setting, "", f"expected a URL ({problem})") from problem
    if not parts.hostname or parts.scheme not in ("https", "http") or "@" in parts.netloc:
        raise ConfigError(issuer.setting, "", f"expected a URL such as https://id.example.org, got {issuer.url!r}")
    if parts.query or parts.fragment or not issuer.url.isascii() or not issuer.url.isprintable() or " " in issuer.url:
        raise ConfigError(issuer.setting, "", f"expected a URL without query and fragment, got {issuer.url!r}")
    if not issuer.is_safe(issuer.url):
        raise ConfigError(
            issuer.setting,
            "",
            f"expected an https URL, got {issuer.url!r}; for plain http inside your own network add"
            f" --issuer-hosts {parts.hostname}",
        )


def _load_secret(settings: Settings, environ: Mapping[str, str]) -> str:
    text = settings.introspection_secret
    if bool(text) != bool(settings.introspection_id):
        raise ConfigError("--introspection-id", "", "expected --introspection-id and --introspection-secret together")
    if not text:
        return ""
    if not REFERENCE.fullmatch(text):
        raise ConfigError(
            "--introspection-secret",
            "",
            "expected the name of a variable of the hub's environment, such as '${INTROSPECTION_SECRET}'; every user of"
            " the machine can read the arguments of a program",
        )
    return resolved({"introspection_secret": text}, "--introspection-secret", environ).get("introspection_secret", "")
