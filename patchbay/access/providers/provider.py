"""The identity providers that the operator names, with the client that this hub is at each of them.

`load_providers` reads the settings once, at the start of the hub; wrong values stop the start. A secret is named, never
given: it is looked up for each request, so that a changed one counts at once.
Source: OpenID Connect Discovery 1.0, section 3 (issuer identifier).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from patchbay.access.tokens.issuer import Issuer, check_issuer_url
from patchbay.config import REFERENCE
from patchbay.errors import ConfigError
from patchbay.settings import SHARED, Settings

MAX_PROVIDERS = 10
MAX_NAME_CHARACTERS = 40

SECRET_USER = "sign-in"
"""Who uses the secrets of these clients, in the list of secrets: no server can have this name."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NAMED = re.compile(rf"([^=:/?#$]{{1,{MAX_NAME_CHARACTERS}}})=(.*)")
"""`NAME=VALUE`; the value may have further equals signs, and a URL or an id alone has none before its first `:`."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One identity provider: its `name` on the button, its `key` in the addresses of the hub, and the hub's client.

    `secret` is the name of the client's secret, empty for a public client. `scopes` are asked for besides `openid`.
    """

    name: str
    key: str
    issuer: Issuer
    client_id: str
    secret: str = ""
    scopes: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The path at which a sign-in with this provider begins."""
        return f"/sign-in/{self.key}"

    @property
    def callback(self) -> str:
        """The path where the provider sends the browser back: one for each provider (RFC 9700, section 4.4.2.2)."""
        return f"{self.page}/callback"


def load_providers(settings: Settings) -> tuple[Provider, ...]:
    """Return the identity providers of the settings. Raises ConfigError with the name of the wrong setting."""
    named = [_split("--sign-in", text) for text in settings.sign_in]
    if named and settings.mode != SHARED:
        raise ConfigError("--sign-in", "", f"people sign in at a shared hub only: leave out --access {settings.access}")
    if len(named) > MAX_PROVIDERS:
        raise ConfigError("--sign-in", "", f"expected at most {MAX_PROVIDERS} identity providers, got {len(named)}")
    for scope in settings.sign_in_scopes:
        if not _SCOPE.fullmatch(scope):
            raise ConfigError("--sign-in-scopes", "", f"expected scopes without spaces and quotes, got {scope!r}")
    issuers = [_make_issuer(settings, url) for _, url in named]
    names = [name or urlsplit(url).netloc for name, url in named]
    clients = _assign("--sign-in-client", settings.sign_in_client, names)
    secrets = _assign("--sign-in-secret", settings.sign_in_secret, names)
    providers = [
        Provider(
            name,
            _make_key(name),
            issuer,
            clients.get(name) or _refuse_missing_client(name),
            _name_secret(secrets.get(name, "")),
            settings.sign_in_scopes,
        )
        for name, issuer in zip(names, issuers, strict=True)
    ]
    for what, values in (
        ("name", [one.key for one in providers]),
        ("URL", [one.issuer.url for one in providers]),
    ):
        if len(set(values)) < len(values):
            raise ConfigError("--sign-in", "", f"two identity providers have the same {what}: {', '.join(values)}")
    return tuple(providers)


def find_provider(settings: Settings, text: str) -> Provider | None:
    """Return the identity provider with this name, key or URL; None where the settings name no such provider.

    Raises ConfigError.
    """
    wanted = text.strip()
    known = load_providers(settings)
    return next((one for one in known if wanted in (one.name, one.key, one.issuer.url)), None)


def _split(setting: str, text: str) -> tuple[str, str]:
    """Split `NAME=VALUE`; a value alone has an empty name. Raises ConfigError."""
    found = _NAMED.fullmatch(text)
    name, value = (found[1].strip(), found[2].strip()) if found else ("", text.strip())
    if not value or not name.isprintable():
        raise ConfigError(setting, "", f"expected a value or NAME=VALUE, got {text[:80]!r}")
    return name, value


def _assign(setting: str, texts: tuple[str, ...], names: list[str]) -> dict[str, str]:
    """Return the value for each provider. A value without a name is for the only one. Raises ConfigError."""
    found: dict[str, str] = {}
    for text in texts:
        name, value = _split(setting, text)
        if not name and len(names) == 1:
            name = names[0]
        if name not in names:
            known = ", ".join(f"{one}=..." for one in names) or "an identity provider (--sign-in)"
            raise ConfigError(setting, "", f"a value is for no identity provider: expected {known}")
        if name in found:
            raise ConfigError(setting, "", f"there are two values for {name}")
        found[name] = value
    return found


def _make_issuer(settings: Settings, url: str) -> Issuer:
    issuer = Issuer(
        url,
        groups_claim=settings.groups_claim,
        private_hosts=frozenset(settings.issuer_hosts),
        setting="--sign-in",
    )
    check_issuer_url(issuer)
    return issuer


def _make_key(name: str) -> str:
    """Make the part of an address that names a provider: `acme-group` for `Acme Group`."""
    key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not key:
        raise ConfigError("--sign-in", "", f"the name of an identity provider needs letters or digits, got {name!r}")
    return key


def _name_secret(text: str) -> str:
    """Return the name in a reference. Raises ConfigError for a text that may be the secret itself; it is not shown."""
    if not text:
        return ""
    found = REFERENCE.fullmatch(text)
    if found is None or found[2] is not None:
        raise ConfigError(
            "--sign-in-secret",
            "",
            "expected the name of a secret, such as '${ACME_SECRET}' (`patchbay secret set ACME_SECRET` stores it);"
            " every user of the machine can read the arguments of a program",
        )
    return found[1]


def _refuse_missing_client(name: str) -> str:
    raise ConfigError("--sign-in-client", "", f"expected the client id of this hub at {name}: --sign-in-client ID")
