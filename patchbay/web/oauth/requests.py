"""Requests to the authorization server in the form that Authlib reads, without repeated or oversized parameters.

Sources: RFC 6749, sections 3.1 and 3.2 (parameters must not be repeated).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from authlib.oauth2.rfc6749 import OAuth2Payload, OAuth2Request
from flask import request

from patchbay.access.oauth.scopes import names_scope
from patchbay.errors import InvalidParams
from patchbay.web.operator.login import FORM
from patchbay.wire.requests.bodies import Unsupported, media_type, read_body
from patchbay.wire.requests.wsgi import request_of

MAX_PARAMETERS = 50
MAX_PARAMETER_CHARACTERS = 8192
MAX_TOKEN_FORM_BYTES = 32 * 1024

_SECURE_URI = "https://hub.invalid/"
"""Authlib refuses http except on `localhost`. TLS is the duty of the proxy in front of the hub; loopback has none."""


class _Payload(OAuth2Payload):  # type: ignore[misc]
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    @property
    def data(self) -> Mapping[str, str]:
        return self._values

    @property
    def datalist(self) -> dict[str, list[str]]:
        return {name: [value] for name, value in self._values.items()}


class HubRequest(OAuth2Request):  # type: ignore[misc]
    """One request. `values` are its parameters; scopes that the hub does not have are left out of them.

    A scope of the hub that cannot be read stays, so that it is refused. `named_scope` has all scopes.
    """

    def __init__(self, method: str, values: Mapping[str, str], headers: Any) -> None:
        super().__init__(method, _SECURE_URI, headers=headers)
        known = dict(values)
        self.named_scope = known.get("scope", "")
        if "scope" in known:
            known["scope"] = " ".join(filter(names_scope, known["scope"].split()))
        self.payload = _Payload(known)

    @property
    def form(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.payload.data
        return found


def make_ascii(problem: Exception) -> str:
    """Return the message in the characters that an error description may have (RFC 6749, section 5.2)."""
    return "".join(each for each in str(problem) if " " <= each <= "~" and each not in '"\\')


def read_query() -> dict[str, str]:
    """Return the parameters in the query of the current request. Raises InvalidParams for a repeated one."""
    return unique(request.args.items(multi=True))


def read_token_form() -> HubRequest:
    """Return the form of the current request. Raises Unsupported (415), TooLarge (413), InvalidParams."""
    kind = media_type(request.environ.get("CONTENT_TYPE") or "")
    if kind != FORM:
        raise Unsupported(f"send this request as {FORM}; the content type is {kind or 'missing'}")
    body = read_body(request_of(request.environ), MAX_TOKEN_FORM_BYTES)
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=False, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as problem:
        raise InvalidParams(f"the form is not valid UTF-8 form data: {problem}") from problem
    return HubRequest("POST", unique(pairs), request.headers)


def unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by name. Raises InvalidParams for repeated, too long or too many ones."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise InvalidParams(f"the parameter {name[:40]!r} is repeated")
        if len(values) >= MAX_PARAMETERS or len(value) > MAX_PARAMETER_CHARACTERS or "\0" in value:
            raise InvalidParams(f"the parameter {name[:40]!r} is too long, or there are too many parameters")
        values[name] = value
    return values
