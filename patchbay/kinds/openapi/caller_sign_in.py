"""The sign-in of callers at a mounted API: with which security scheme, at which authorization server, for which scopes.

The document says it with a scheme `openIdConnect`, or `oauth2` with an authorization code; the field `oauth` of the
configuration replaces what the document says. The scopes are those that the served operations require.

Sources: OpenAPI 3.1.1, Security Scheme Object, OAuth Flow Object, and section 4.6 (relative URLs of an API); OpenAPI
3.2.0 (`oauth2MetadataUrl`); OpenAPI 2.0, Security Scheme Object (`accessCode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from patchbay.caller_accounts.credentials import FORWARD, KEY
from patchbay.caller_accounts.way import WaySettings
from patchbay.client.auth.token_clients import DescribedIssuer
from patchbay.client.openapi.operations import Api, Operation
from patchbay.kinds.openapi.credentials import choose_schemes
from patchbay.kinds.openapi.tools import ApiTools

Json = Mapping[str, Any]


def find_caller_scheme(api: Api, configured: Json) -> str:
    """Return the scheme that the token of a caller satisfies, without those with a configured credential; "" if none.

    A scheme with which a person signs in is preferred to one that only names a bearer token.
    """
    schemes = {
        name: one for name, one in api.authentication.items() if isinstance(one, Mapping) and name not in configured
    }
    people = [name for name, one in schemes.items() if one.get("type") == "openIdConnect" or _find_flow(one)]
    bearers = [name for name, one in schemes.items() if one.get("type") == "oauth2" or _is_bearer(one)]
    return next(iter(people + bearers), "")


def needs_credential(way: WaySettings, operation: Operation, api: Api, configured: Json) -> bool:
    """Whether an operation gets the credential of its caller.

    Headers that go on belong to every operation; a key to those that the document does not leave open.
    """
    if way.name == FORWARD:
        return True
    return not is_open(operation, api) if way.name == KEY else needs_caller_token(operation, api, configured)


def is_open(operation: Operation, api: Api) -> bool:
    """Whether a document lets everyone use an operation, while it requires something of others."""
    wanted = _find_requirements(operation, api)
    return isinstance(wanted, list) and (not wanted or {} in wanted) and _requires_anything(api)


def needs_caller_token(operation: Operation, api: Api, configured: Json) -> bool:
    """Whether an operation gets the token of its caller: the document requires it, or requires nothing anywhere."""
    if not isinstance(_find_requirements(operation, api), list):
        return not _requires_anything(api)
    scheme = find_caller_scheme(api, configured)
    return bool(scheme) and scheme in choose_schemes(operation, api, {**configured, scheme: ""})


def describe_issuer(found: ApiTools | None, configured: Json, oauth: Mapping[str, str], base: str) -> DescribedIssuer:
    """Describe the authorization server of an API. `oauth` is the field of the configuration, with its variables.

    Relative URLs of the document are below `base`. `found` is None before the document was read.
    """
    own = {key: oauth.get(key, "") for key in ("issuer", "authorization_url", "token_url", "resource")}
    if found is None:
        return DescribedIssuer(**own)
    name = find_caller_scheme(found.api, configured)
    scheme = found.api.authentication.get(name, {})
    flow = _find_flow(scheme)
    metadata = scheme.get("openIdConnectUrl") or scheme.get("oauth2MetadataUrl")
    return DescribedIssuer(
        **own,
        metadata_url=_join(base, metadata),
        document_authorization_url=_join(base, flow.get("authorizationUrl")),
        document_token_url=_join(base, flow.get("tokenUrl")),
        scope=" ".join(_list_scopes(found, name)),
    )


def _list_scopes(found: ApiTools, name: str) -> list[str]:
    scopes: dict[str, None] = {}
    for tool in found.tools.values():
        requirements = _find_requirements(tool.operation, found.api)
        for one in requirements if isinstance(requirements, list) else ():
            wanted = one.get(name) if isinstance(one, Mapping) else None
            scopes |= {scope: None for scope in wanted or () if isinstance(scope, str)}
    return list(scopes)


def _find_requirements(operation: Operation, api: Api) -> Any:
    return operation.raw.get("security", api.document.get("security"))


def _requires_anything(api: Api) -> bool:
    """Whether an operation of a document says what it requires."""
    items = [item for item in api.document.get("paths", {}).values() if isinstance(item, Mapping)]
    return any("security" in one for item in items for one in item.values() if isinstance(one, Mapping))


def _find_flow(scheme: Json) -> Json:
    """Return the flow with an authorization code; empty without one."""
    flows = scheme.get("flows")
    flow = flows.get("authorizationCode") if isinstance(flows, Mapping) else None
    if scheme.get("flow") == "accessCode":
        flow = scheme
    return flow if isinstance(flow, Mapping) else {}


def _is_bearer(scheme: Json) -> bool:
    return scheme.get("type") == "http" and str(scheme.get("scheme")).lower() == "bearer"


def _join(base: str, url: Any) -> str:
    return urljoin(base, url) if isinstance(url, str) and url else ""
