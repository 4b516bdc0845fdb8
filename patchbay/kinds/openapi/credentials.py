"""What the security schemes of a document add to a request, by the credentials of the configuration.

Every credential is text with `${VARIABLES}`, or an object: `username` and `password`, or `client_id`, `client_secret`,
`token_url` and `scope` for the client credentials of OAuth 2. An operation gets the first combination of schemes that
the document requires and the configuration has. Credentials go to the origins that the configuration names only.

Sources: OpenAPI 3.1.1, Security Scheme Object and Security Requirement Object; OpenAPI 2.0, Security Definitions
Object; RFC 6749 section 4.4; RFC 6750; RFC 7617.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode

from patchbay.client.addresses.targets import check_headers
from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.openapi.requests import HttpRequest
from patchbay.client.openapi.styles import FORM_MEDIA_TYPE
from patchbay.errors import ToolFailed

Pair = tuple[str, str]


@dataclass
class PrivateParts:
    """What credentials add to a request."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[Pair] = field(default_factory=list)
    cookies: list[Pair] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.cookies)

    def add_to(self, call: HttpRequest) -> HttpRequest:
        """Return the request with these parts instead of parts of the same name that it has.

        An object as the value of a parameter, or `next`, can bring such names. A fragment is removed, because it would
        end the query. Raises InvalidParams for a header that cannot be sent.
        """
        headers = {**call.headers, **check_headers(self.headers, "the credentials")}
        if self.cookies:
            own = _remove_names(headers.get("Cookie", ""), "; ", self.cookies)
            headers["Cookie"] = "; ".join([*own, *(f"{name}={quote(text, safe='')}" for name, text in self.cookies)])
        place, _, query = call.url.partition("#")[0].partition("?")
        pieces = _remove_names(query, "&", self.query) + ([urlencode(self.query)] if self.query else [])
        return replace(call, headers=headers, url=f"{place}?{'&'.join(pieces)}" if pieces else place)


def _remove_names(text: str, joint: str, private: list[Pair]) -> list[str]:
    """Return the pairs `name=value` of a text whose names are not those of private ones, in any case."""
    gone = {name.lower() for name, _ in private}
    return [one for one in text.split(joint) if one and unquote_plus(one.partition("=")[0]).lower() not in gone]


def choose_schemes(operation: Operation, api: Api, configured: Mapping[str, Any]) -> list[str]:
    """Return the names of the configured schemes that an operation gets.

    An operation of a document that requires nothing anywhere gets all of them.
    """
    wanted = operation.raw.get("security", api.document.get("security"))
    known = [name for name in configured if name in api.authentication]
    if not isinstance(wanted, list):
        return known
    for one in wanted:
        if isinstance(one, Mapping) and all(name in known for name in one):
            return list(one)
    return []


def list_hidden_parameters(api: Api, configured: Mapping[str, Any]) -> set[Pair]:
    """Return the parameters that the configured credentials supply, as place and name in lower case."""
    hidden: set[Pair] = set()
    for name in configured:
        scheme = api.authentication.get(name)
        if isinstance(scheme, Mapping) and scheme.get("type") == "apiKey":
            hidden.add((str(scheme.get("in")), str(scheme.get("name")).lower()))
        elif isinstance(scheme, Mapping):
            hidden.add(("header", "authorization"))
    return hidden


def add_scheme(parts: PrivateParts, scheme: Mapping[str, Any], value: Any) -> None:
    """Add what one scheme needs. `value` is a text, or an object with `username` and `password`."""
    kind = scheme.get("type")
    if kind == "apiKey":
        name, text = str(scheme.get("name")), str(value)
        if scheme.get("in") == "query":
            parts.query.append((name, text))
        elif scheme.get("in") == "cookie":
            parts.cookies.append((name, text))
        else:
            parts.headers[name] = text
    elif kind == "basic" or (kind == "http" and str(scheme.get("scheme")).lower() == "basic"):
        both = f"{value['username']}:{value['password']}" if isinstance(value, Mapping) else str(value)
        parts.headers["Authorization"] = f"Basic {b64encode(both.encode()).decode()}"
    else:
        word = str(scheme.get("scheme", "bearer")) if kind == "http" else "bearer"
        parts.headers["Authorization"] = f"{'Bearer' if word.lower() == 'bearer' else word} {value}"


def needs_token(value: Any) -> bool:
    """Whether a credential is that of a client, which gets a token first."""
    return isinstance(value, Mapping) and "client_id" in value


def find_token_url(scheme: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, bool]:
    """Return where a client gets its token, and whether the configuration itself says it. Raises ToolFailed."""
    if value.get("token_url"):
        return str(value["token_url"]), True
    flows = scheme.get("flows")
    flow = flows.get("clientCredentials") if isinstance(flows, Mapping) else scheme
    url = flow.get("tokenUrl") if isinstance(flow, Mapping) else None
    if not isinstance(url, str):
        raise ToolFailed("the document names no tokenUrl for client credentials; configure token_url")
    return url, False


def make_token_request(url: str, value: Mapping[str, Any]) -> HttpRequest:
    """Return the request for a token (RFC 6749 section 4.4.2)."""
    form = {"grant_type": "client_credentials"} | ({"scope": value["scope"]} if value.get("scope") else {})
    both = f"{quote(str(value['client_id']), safe='')}:{quote(str(value['client_secret']), safe='')}"
    headers = {"Content-Type": FORM_MEDIA_TYPE, "Authorization": f"Basic {b64encode(both.encode()).decode()}"}
    return HttpRequest("POST", url, headers, urlencode(form).encode())
