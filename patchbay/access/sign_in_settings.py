"""What the settings say about sign-in: whether people sign in, and which addresses serve everybody for that.

Sources: RFC 8414, section 3.1; OpenID Connect Discovery 1.0, section 4.
"""

from __future__ import annotations

from patchbay.settings import SHARED, Settings

METADATA_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
OAUTH_PATHS = (*METADATA_PATHS, "/oauth/authorize", "/oauth/token", "/oauth/register", "/oauth/revoke", "/oauth/jwks")
SIGN_IN_PATHS = (
    *("/login/password", "/login/passkey", "/logout/person"),
    *("/invitation", "/invitation/passkey"),
)
"""The paths that need no principal: they prove the sender themselves."""


SIGN_IN_PREFIXES = ("/sign-in/",)
"""How further such paths begin: those of the sign-in with an identity provider."""


def has_sign_in(settings: Settings) -> bool:
    """Whether people sign in at this hub: in shared mode."""
    return settings.mode == SHARED


def has_authorization_server(settings: Settings) -> bool:
    """Whether the hub issues access tokens itself: in shared mode without an outside issuer."""
    return has_sign_in(settings) and not settings.issuer


def list_open_paths(settings: Settings) -> tuple[set[str], tuple[str, ...]]:
    """Return the paths, and the beginnings of paths, that are served to callers without a sign-in, because they are the
    way to one.
    """
    return ({*SIGN_IN_PATHS, *OAUTH_PATHS}, SIGN_IN_PREFIXES) if has_sign_in(settings) else (set(), ())
