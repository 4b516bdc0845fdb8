"""Parse the address or the profile of an HTTP API: its document, its base URL, the operation and the arguments.

    openapi+https://HOST/PATH[?QUERY]   an API whose document is at the URL, or at a usual path below it
    openapi+file:PATH[?QUERY]           an API whose document is a file
    https://.../openapi.json            the document itself, taken whole
    @PROFILE[/OPERATION][?QUERY]        a profile of the plugin `http`

The query is that of MCP addresses, with `operation=NAME` for `tool=NAME`, and `launch.base_url=`, `page.KEY=`
(docs/addresses.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.launchers import API_DOCUMENT_PATH, check_url
from patchbay.client.addresses.query import check_text, decode_percent, parse_pairs, sort_pairs
from patchbay.client.addresses.targets import AddressError, mask_url
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars, substitute_env_vars_recursive
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import SourceContext, get_scheme

PLUGIN = "http"
SCHEMES = ("openapi+http", "openapi+https", "openapi+file")
CONNECTION_FIELDS = ("base_url", "document", "headers", "timeout", "pagination")
"""The fields of an `http` profile's `connection`."""


@dataclass(frozen=True, slots=True)
class ApiTarget:
    """An API and the request for it.

    `document` is a URL or, when `is_file` is set, a path; "" when the profile describes everything. `listing` is the
    list to give, or "". `arguments` are text, `exact` JSON values. `paging` is as it was written.
    """

    label: str
    document: str = ""
    is_file: bool = False
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    operation: str = ""
    listing: str = ""
    arguments: Mapping[str, str | list[str]] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)
    paging: Mapping[str, Any] = field(default_factory=dict)
    schema: str = ""
    profile: Profile | None = None

    @property
    def named_urls(self) -> tuple[str, ...]:
        """The URLs that the caller named: credentials may be sent there."""
        return tuple(url for url in (self.base_url, "" if self.is_file else self.document) if url)


def is_document(address: str) -> bool:
    """Whether a plain URL is that of an API's document."""
    return get_scheme(address) in ("http", "https") and API_DOCUMENT_PATH.search(address.partition("?")[0]) is not None


def parse_target(address: str, context: SourceContext) -> ApiTarget:
    """Parse an address. Raises AddressError, ProfileError."""
    check_text(address, "the address")
    if address.startswith("@"):
        return _resolve_reference(address, context)
    if is_document(address):
        return ApiTarget(mask_url(address), check_url(address, "the URL"))
    return _parse_naked_uri(address, context.environ)


def make_connection_fields(address: str) -> dict[str, Any]:
    """Make the `connection` of a profile for the API at an address; `${VAR}`s stay as they are. Raises AddressError."""
    if is_document(address):
        return {"document": check_url(address, "the URL")}
    target = _parse_naked_uri(address, None)
    found = {"base_url": target.base_url, "document": target.document, "headers": dict(target.headers)}
    return {key: value for key, value in found.items() if value}


def _parse_naked_uri(address: str, environ: Mapping[str, str] | None) -> ApiTarget:
    """Parse an address that is not a profile; without `environ`, variables stay as they are."""
    place, _, text = address.partition("?")
    scheme = get_scheme(address)
    query = sort_pairs(
        [("tool" if key == "operation" else key, value) for key, value in _list_plain_pairs(text)], False
    )
    options = dict(query.launch)
    known = ("launch.base_url", "launch.query")
    if len(options) < len(query.launch):
        raise AddressError(f"{mask_url(place)}: expected each of header., query. and launch. once")
    other = [key for key in options if not key.startswith(("header.", "query.")) and key not in known]
    if other:
        raise AddressError(
            f"{other[0]}=: expected header.NAME=, query.NAME=, {' or '.join(f'{one}=' for one in known)}"
        )
    is_file = scheme == "openapi+file"
    rest = place[len("openapi+") :]
    url = (
        decode_percent(rest.removeprefix("file:").removeprefix("//"), "the path")
        if is_file
        else check_url(rest, "the URL")
    )
    own = "&".join(filter(None, (options.get("launch.query", ""), urlencode(_select_prefixed(options, "query.")))))
    listing = query.control.get("list", "")
    if listing not in ("", "tools", "operations", "all"):
        raise AddressError(f"list={listing}: expected operations")
    asked = [key for key in ("resource", "prompt") if key in query.control]
    if asked:
        raise AddressError(f"{asked[0]}=: an HTTP API has operations; expected operation=NAME")
    where = "the address"
    document, base = url + (f"?{own}" if own else ""), options.get("launch.base_url", "")
    headers = _select_prefixed(options, "header.")
    if environ is not None:
        document = substitute_env_vars(document, environ, where, "url")
        base = substitute_env_vars(base, environ, where, "launch.base_url")
        headers = substitute_env_vars_recursive(headers, environ, where, "header")
    return ApiTarget(
        mask_url(place),
        document,
        is_file,
        base,
        headers,
        None,
        query.control.get("tool", ""),
        listing,
        query.text,
        query.exact,
        _select_prefixed(dict(_list_page_pairs(text)), "page."),
        query.control.get("schema", ""),
    )


def _list_plain_pairs(text: str) -> list[tuple[str, str]]:
    return [pair for pair in parse_pairs(text) if not pair[0].startswith("page.")]


def _list_page_pairs(text: str) -> list[tuple[str, str]]:
    return [pair for pair in parse_pairs(text) if pair[0].startswith("page.")]


def _select_prefixed(rows: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in rows.items() if key.startswith(prefix)}


def _resolve_reference(address: str, context: SourceContext) -> ApiTarget:
    place, _, text = address.partition("?")
    rows = [("tool" if key == "operation" else key, value) for key, value in _list_plain_pairs(text)]
    found = parse_address(f"{place}?{urlencode(rows)}" if rows else place)
    profile = context.get_profiles(PLUGIN).load(place[1:].partition("/")[0])
    target = make_profile_target(profile, context)
    if found.operation not in ("none", "call", "list") or found.name in ("resources", "templates", "prompts"):
        raise AddressError(f"{place}: an HTTP API has operations; expected @{profile.name}/OPERATION or list=tools")
    return replace(
        target,
        label=place,
        operation=found.name if found.operation == "call" else "",
        listing=found.name if found.operation == "list" else "",
        arguments=found.arguments,
        exact=found.exact,
        paging=_select_prefixed(dict(_list_page_pairs(text)), "page.") or target.paging,
        schema=found.schema,
    )


def make_profile_target(profile: Profile, context: SourceContext) -> ApiTarget:
    """Make the target of a profile. Raises ProfileError."""
    where = f"{profile.directory or profile.name}/_meta.json"
    launch = profile.launch
    other = sorted(set(launch) - set(CONNECTION_FIELDS))
    if other:
        raise ProfileError(where, f"connection.{other[0]}", f"expected only {', '.join(CONNECTION_FIELDS)}")
    base, document = (_get_url(launch, key, context, where) for key in ("base_url", "document"))
    headers, timeout = launch.get("headers", {}), launch.get("timeout")
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        raise ProfileError(where, "connection.headers", "expected an object of strings")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0):
        raise ProfileError(where, "connection.timeout", "expected seconds")
    if not base and not document:
        raise ProfileError(where, "connection", "expected base_url, document, or both")
    paging = launch.get("pagination", {})
    if not isinstance(paging, dict):
        raise ProfileError(where, "connection.pagination", "expected an object with type")
    is_file = bool(document) and get_scheme(document) not in ("http", "https")
    return ApiTarget(
        f"@{profile.name}",
        document,
        is_file,
        base,
        substitute_env_vars_recursive(headers, context.environ, where, "connection.headers"),
        timeout,
        paging=paging,
        profile=profile,
    )


def _get_url(launch: Mapping[str, Any], key: str, context: SourceContext, where: str) -> str:
    value = launch.get(key, "")
    if not isinstance(value, str):
        raise ProfileError(where, f"connection.{key}", "expected a URL")
    url = substitute_env_vars(value, context.environ, where, f"connection.{key}")
    try:
        return check_url(url, where) if url and (key == "base_url" or "://" in url) else url
    except AddressError as problem:
        raise ProfileError(where, f"connection.{key}", "expected http(s)://HOST[:PORT][/PATH]") from problem
