"""The source for HTTP APIs that describe themselves: operations of OpenAPI 3.x and Swagger 2 documents are called.

An operation is to an API what a tool is to an MCP server, with the same contract, hash and drift; so a profile of the
plugin `http` is validated as any other. A profile may also describe its endpoints itself (`endpoints`, `choose_base_url`).
Answers are records: the items of a list, an object as it is, the rows of CSV, and so on (`formats.py`).
Sources: JN-53, JN-54, JN-64, JN-66; issue text of the client (discovery contract).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from patchbay.client.addresses.targets import mask_url
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.coercion import coerce_arguments, coerce_record
from patchbay.client.contracts.contract import (
    ValidationResult,
    check_output_format,
    check_pin,
    compute_contract_cid,
    compute_schema_hash,
    validate,
)
from patchbay.client.openapi.documents import fetch_api, load_api_file
from patchbay.client.openapi.http_client import ApiClient, ApiFailure, Reply, get_origin
from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.openapi.pagination import (
    Paging,
    choose_first_value,
    find_items,
    find_next_link,
    find_next_value,
    find_page_parameter,
    parse_paging,
)
from patchbay.client.openapi.requests import HttpRequest, build_request, choose_base_url
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import Record, SourceContext, make_error_record
from patchbay.client.sources.formats import decode_records, get_format_of_media_type, iterate_value
from patchbay.client.sources.http_profiles import add_endpoint_tools, apply_profile, build_api
from patchbay.client.sources.http_targets import (
    PLUGIN,
    SCHEMES,
    ApiTarget,
    is_document,
    make_profile_target,
    parse_target,
)
from patchbay.client.sources.records import get_arguments
from patchbay.client.suggestions import describe_unknown_name
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log
from patchbay.jsonrpc import parse

PROBE_SECONDS = 5.0
"""Time for one answer while it is found out whether an API is there."""


@dataclass(frozen=True, slots=True)
class ApiService:
    """An API at work: what it describes, where that was found, and the client that speaks to it."""

    target: ApiTarget
    api: Api
    url: str
    operations: Mapping[str, Operation]
    client: ApiClient

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Its operations as tools, by which its contract is known."""
        return [dict(one.tool) for one in self.operations.values()]

    @property
    def server(self) -> str:
        """Where its first operation is, for people."""
        first = next(iter(self.operations.values()), None)
        return (
            mask_url(choose_base_url(first, self.url, self.target.base_url))
            if first
            else mask_url(self.target.base_url or self.url)
        )

    def get_operation(self, name: str) -> Operation:
        """The operation of this name. Raises InvalidParams with those there are."""
        if name not in self.operations:
            unknown = describe_unknown_name(name, list(self.operations), "operation")
            raise InvalidParams(f"{self.target.label}: {unknown}")
        return self.operations[name]


class HttpSource:
    """Any HTTP API with an OpenAPI or Swagger document, or with a profile that describes it."""

    name = PLUGIN
    schemes: Collection[str] = SCHEMES

    def claims(self, address: str) -> bool:
        """A plain URL is ours when it names an OpenAPI or Swagger document."""
        return is_document(address)

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """The records that an operation answers; without one, the operations."""
        with self._open_service(parse_target(address, context), context) as service:
            target = service.target
            if not target.operation:
                for one in service.operations.values():
                    yield {"type": "operation", **one.endpoint}
                return
            operation = service.get_operation(target.operation)
            yield from _read_pages(service, operation, _merge_arguments(target, operation, arguments or {}), context)

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Call the operation once per record, its fields being arguments over those of the address (JN-12)."""
        with self._open_service(parse_target(address, context), context) as service:
            target = service.target
            if not target.operation:
                raise InvalidParams(f"{target.label}: expected an operation to write to (operation=NAME)")
            operation = service.get_operation(target.operation)
            for record in records:
                given = {**(arguments or {}), **coerce_record(get_arguments(record), operation.tool["inputSchema"])}
                try:
                    yield from _read_pages(service, operation, _merge_arguments(target, operation, given), context)
                except PatchbayError as problem:
                    extras = problem.data if isinstance(problem, ApiFailure) and isinstance(problem.data, dict) else {}
                    yield make_error_record("http_error", problem.message, operation=operation.name, **extras)

    def inspects(self, address: str, context: SourceContext) -> dict[str, Any]:
        """The API, its operations as tools, and how it wants to be signed in to."""
        with self._open_service(parse_target(address, context), context, use=False) as service:
            return {
                "server": service.api.title or service.server,
                "transport": "http",
                "address": service.target.label,
                "reach": service.server,
                "document": mask_url(service.url),
                "contract": compute_contract_cid(service.tools),
                "tools": service.tools,
                "resources": [],
                "authentication": service.api.authentication,
            }

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """Endpoints and schemas, and the hash of all operations (JN-54)."""
        with self._open_service(parse_target(address, context), context, use=False) as service:
            target = service.target
            return {
                "plugin": self.name,
                "service": target.profile.name
                if target.profile
                else urlsplit(service.server).hostname or service.server,
                "version_hash": compute_schema_hash(service.tools),
                "discoverable": {
                    "endpoints": [one.endpoint for one in service.operations.values()],
                    "schemas": service.api.component_schemas,
                    "authentication": service.api.authentication,
                },
            }

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Whether the API's operations are what the profile expects; `error` when that cannot be told."""
        try:
            target = make_profile_target(profile, context)
            if not target.document:
                return ValidationResult("unknown", "The profile names no document to compare with")
            with self._open_service(target, context, use=False) as service:
                return validate(add_endpoint_tools(profile, service.operations), service.tools, context.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def list_operations(self, profile: Profile, context: SourceContext) -> Mapping[str, Operation]:
        """The API's present operations, as its document describes them. Raises ProfileError when none is named."""
        target = make_profile_target(profile, context)
        if not target.document:
            where = f"{profile.directory or profile.name}/_meta.json"
            raise ProfileError(
                where, "connection.document", "expected the API's document; nothing else says its contract"
            )
        with self._open_service(target, context, use=False) as service:
            return service.operations

    def versions(self, address: str, context: SourceContext) -> str | None:
        """The hash of all operations."""
        with self._open_service(parse_target(address, context), context, use=False) as service:
            return compute_schema_hash(service.tools)

    @contextmanager
    def _open_service(self, target: ApiTarget, context: SourceContext, use: bool = True) -> Iterator[ApiService]:
        seconds = context.get_timeout(target.timeout)
        with ApiClient(target.named_urls, target.headers, seconds, context.limit) as client:
            api, url = _load_api(target, context, client)
            operations = api.list_operations()
            plain = ApiService(target, api, url, operations, client)
            if use and context.check_contract is not None:
                _check_contract(plain, context)
            profile = target.profile
            full = apply_profile(operations, profile) if profile is not None and use else operations
            yield replace(plain, operations=full)


def is_described(url: str, context: SourceContext) -> bool:
    """Whether an HTTP API describes itself at a URL or in a usual place below it. Sends no headers of the caller."""
    try:
        with ApiClient((url,), {}, min(context.get_timeout(), PROBE_SECONDS), context.limit) as client:
            fetch_api(url, client)
    except PatchbayError:
        return False
    return True


def _load_api(target: ApiTarget, context: SourceContext, client: ApiClient) -> tuple[Api, str]:
    if not target.document:
        assert target.profile is not None
        return build_api(target.profile), target.base_url
    if target.is_file:
        home = target.profile.directory if target.profile and target.profile.directory else Path()
        return load_api_file(home / target.document, context.limit), Path(home / target.document).absolute().as_uri()
    return fetch_api(target.document, client)


def _check_contract(service: ApiService, context: SourceContext) -> None:
    """A look at the contract that is expected: a pin in the address, what the profile recorded."""
    target, profile = service.target, service.target.profile
    if target.schema:
        result = check_pin(target.schema, service.tools, context.blobs, target.operation)
        if result.status != "valid":
            changes = "".join(f"\n  - {change.kind}: {change.sentence}" for change in result.changes)
            raise ContractError(f"{result.message}{changes}", result.to_json())
    if (
        profile is None
        or not target.document
        or profile.schema_validation == "ignore"
        or context.check_contract is None
    ):
        return
    mark = (PLUGIN, profile.name)
    if profile.schema_hash is not None and mark not in context.checked_contracts:
        context.check_contract(
            profile, validate(add_endpoint_tools(profile, service.operations), service.tools, context.blobs)
        )
        context.checked_contracts.add(mark)


def _merge_arguments(target: ApiTarget, operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments: the profile's defaults, those of the address by the operation's schema, those of the caller."""
    text = {key: value for key, value in target.arguments.items() if key not in given}
    defaults = operation.extra.get("defaults", {})
    return {
        **_get_header_arguments(target, operation),
        **defaults,
        **coerce_arguments(text, operation.tool["inputSchema"]),
        **target.exact,
        **given,
    }


def _get_header_arguments(target: ApiTarget, operation: Operation) -> dict[str, Any]:
    """The header parameters that the address or the profile gives a value as a header of every request."""
    headers = {name.lower(): value for name, value in target.headers.items()}
    rows = [one for one in operation.parameters if one.place == "header" and one.name.lower() in headers]
    return {one.argument: headers[one.name.lower()] for one in rows}


def _read_pages(
    service: ApiService, operation: Operation, arguments: dict[str, Any], context: SourceContext
) -> Iterator[Record]:
    """The records of all the pages that are asked for, as they come."""
    target = service.target
    where = f"{target.label}: {operation.name}"
    paging = parse_paging(target.paging or operation.extra.get("pagination", {}), where)
    base = choose_base_url(operation, service.url, target.base_url)
    known = operation.tool["inputSchema"].get("properties", {})
    cursor = paging is not None and paging.type == "cursor"
    key = find_page_parameter(paging, known, where) if paging and not cursor else ""
    if paging and paging.type in ("page", "offset"):
        arguments = {**arguments, key: choose_first_value(paging, arguments.get(key))}
    call = build_request(operation, base, arguments)
    seen: set[str] = set()
    for _ in range(paging.most if paging else 1):
        reply = service.client.send(call)
        _compare_output(operation, reply, context)
        value, records = _decode_reply(reply, paging, where, context)
        yield from records
        if paging is None:
            return
        if paging.type == "link":
            link = find_next_link(reply.headers.get("link", ""), value, paging)
            call = _follow_link(call, link, where) if link else call
        else:
            link = find_next_value(value, len(records), arguments.get(key), paging)
            if link is not None:
                key = key or find_page_parameter(paging, known, where)  # of no matter as long as there is one page only
                arguments = {**arguments, key: link}
                call = build_request(operation, base, arguments)
        if link in (None, ""):
            return
        if repr(link) in seen:
            raise InvalidParams(f"{where}: the pages never end: {link!r:.80} came twice")
        seen.add(repr(link))


def _follow_link(call: HttpRequest, link: str, where: str) -> HttpRequest:
    """The request for the next page. Raises InvalidParams when it is elsewhere: the arguments may be credentials."""
    url = urljoin(call.url, link)
    if get_origin(url) != get_origin(call.url):
        raise InvalidParams(f"{where}: the next page is at {mask_url(url)}, another server, which is not followed")
    return HttpRequest(call.method, url, call.headers, call.content)


def _decode_reply(reply: Reply, paging: Paging | None, where: str, context: SourceContext) -> tuple[Any, list[Record]]:
    """An answer as a JSON value, when it is one, and as records."""
    if not reply.body:
        return None, [{"status": reply.status}] if paging is None else []
    kind = get_format_of_media_type(reply.media_type)
    if kind != "json":
        return None, list(decode_records(io.BytesIO(reply.body), kind, context.limit, reply.media_type))
    value = parse(reply.body)
    return value, list(iterate_value(find_items(value, paging, where)))


def _compare_output(operation: Operation, reply: Reply, context: SourceContext) -> None:
    words = check_output_format(operation.name, operation.extra.get("output_format"), [reply.media_type])
    if words:
        context.on_event(Log("warning", words, "patchbay.client"))
