"""The sign-in that an address or a profile asks for: which way, and the values that each way needs.

    browser             a person signs in; `client_id` (and `client_secret`) name a registration made beforehand
    client-credentials  the client itself, with `client_secret` or with a private key in the file `client_key`
    workload            the platform's token in the file `token_file` is the grant (SEP-1933)
    identity            an identity provider exchanges the token in `id_token_file` for an assertion (SEP-990)

In an address each key begins with `launch.`; in a profile they are the members of the object `sign_in`, and `way` is
`launch.sign_in`. Files are named here and read by `auth/configured.py`.
Sources: RFC 6749 sections 2.3 and 4.4, RFC 7523, RFC 8693.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, cast, get_args

from patchbay.errors import InvalidParams

Way = Literal["browser", "client-credentials", "workload", "identity"]

WAY = "way"
"""The member of `sign_in` in a profile that names the way; `launch.sign_in` in an address."""

_REQUIRED: Mapping[Way, tuple[str, ...]] = {
    "browser": (),
    "client-credentials": ("client_id",),
    "workload": ("client_id", "token_file"),
    "identity": ("client_id", "client_secret", "identity_token_url", "identity_client_id", "id_token_file"),
}
_OPTIONAL: Mapping[Way, tuple[str, ...]] = {
    "browser": ("client_id", "client_secret", "scope"),
    "client-credentials": ("client_secret", "client_key", "scope"),
    "workload": ("scope",),
    "identity": ("scope",),
}
FILE_KEYS = ("client_key", "token_file", "id_token_file")
"""The keys whose values are paths of files."""


@dataclass(frozen=True, slots=True)
class SignInFields:
    """How a client signs in to the server at a URL. Empty strings are values that the way does not use."""

    way: Way = "browser"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_key: str = ""
    scope: str = ""
    token_file: str = ""
    identity_token_url: str = ""
    identity_client_id: str = ""
    id_token_file: str = ""

    def to_fields(self) -> dict[str, str]:
        """Return the members of `sign_in` in a profile, without the empty ones."""
        return {name: value for name, value in asdict(self).items() if value}


SIGN_IN_KEYS = tuple(name for name in SignInFields.__dataclass_fields__ if name != WAY)


class SignInError(InvalidParams):
    """A sign-in that cannot be used. `key` is the member that is wrong, "" for the whole."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def make_sign_in_fields(given: Mapping[str, str], issuer: str, has_authorization: bool) -> SignInFields:
    """Make the fields from their members; `issuer` is the configured authorization server.

    `has_authorization` says that a header Authorization is configured. Raises SignInError.
    """
    way = given.get(WAY, "browser")
    if way not in get_args(Way):
        raise SignInError(WAY, f"expected one of {', '.join(get_args(Way))}, got {way[:80]!r}")
    found = cast(Way, way)
    allowed = (*_REQUIRED[found], *(key for key in _OPTIONAL[found] if key not in _REQUIRED[found]))
    for key in given:
        if key != WAY and key not in allowed:
            _refuse_key(key, found, allowed)
    for key in _REQUIRED[found]:
        if not given.get(key):
            raise SignInError(key, f"expected {key}: the sign-in {found} needs {_join(_REQUIRED[found])} and an issuer")
    empty = next((key for key, value in given.items() if not value), None)
    if empty is not None:
        raise SignInError(empty, f"expected a value of {empty}, got an empty one")
    _check_combination(found, given, issuer, has_authorization)
    return SignInFields(found, **{key: value for key, value in given.items() if key != WAY})


def has_literal_secret(given: Mapping[str, object]) -> bool:
    """Whether a stored definition holds the client's secret itself, in place of a variable `${NAME}`."""
    secret = given.get("client_secret", "")
    return bool(secret) and not (isinstance(secret, str) and secret.startswith("${") and secret.endswith("}"))


def _refuse_key(key: str, way: Way, allowed: tuple[str, ...]) -> None:
    others = [one for one in get_args(Way) if key in (*_REQUIRED[one], *_OPTIONAL[one])]
    belongs = f"{key} belongs to the sign-in {' and '.join(others)}" if others else f"{key} is not known"
    raise SignInError(key, f"{belongs}; the sign-in {way} takes {_join(allowed)}")


def _check_combination(way: Way, given: Mapping[str, str], issuer: str, has_authorization: bool) -> None:
    if has_authorization:
        raise SignInError("", "expected a sign-in or a header Authorization, not both")
    if way == "client-credentials" and ("client_secret" in given) == ("client_key" in given):
        raise SignInError("client_secret", f"the sign-in {way} needs client_secret or client_key, one of the two")
    if "client_secret" in given and "client_id" not in given:
        raise SignInError("client_id", "expected client_id beside client_secret")
    if "client_id" in given and not issuer.startswith(("http://", "https://")):
        raise SignInError(
            "issuer",
            "expected issuer, the URL of one authorization server, beside client_id: credentials are sent only there",
        )
    url = given.get("identity_token_url")
    if url is not None and not url.startswith(("http://", "https://", "${")):
        raise SignInError("identity_token_url", f"expected the http(s) URL of a token endpoint, got {url[:200]!r}")


def _join(keys: tuple[str, ...]) -> str:
    return ", ".join(keys)
