"""The source for HTTP APIs that describe themselves: it calls operations of OpenAPI 3.x and Swagger 2 documents.

An operation corresponds to a tool of an MCP server, with the same contract, hash and drift; so a profile of the plugin
`http` is validated like any other. A profile may also describe its endpoints itself (`endpoints`, `base_url`). Answers
are records: the items of a list, an object unchanged, the rows of CSV, and so on (`formats.py`).
"""

from __future__ import annotations

import io
import os
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
    compute_profile_hash,
    validate,
)
from patchbay.client.contracts.file_arguments import resolve_files
from patchbay.client.openapi.documents import fetch_api, fetch_beside, load_api_file
from patchbay.client.openapi.files import load_data_uris
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
from patchbay.client.openapi.remote_parts import include_remote_parts
from patchbay.client.openapi.requests import HttpRequest, build_request, choose_base_url
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import Record, SourceContext, get_scheme, make_error_record
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
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log
from patchbay.jsonrpc import parse
from patchbay.suggestions import describe_unknown_name

PROBE_SECONDS = 5.0
"""Seconds for one answer while finding out whether an API describes itself at a URL."""


@dataclass(frozen=True, slots=True)
class ApiService:
    """An API in use: its description, the URL of that, and the client that sends requests to it."""

    target: ApiTarget
    api: Api
    url: str
    operations: Mapping[str, Operation]
    client: ApiClient

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The operations as tools, for the contract."""
        return [dict(one.tool) for one in self.operations.values()]

    @property
    def server(self) -> str:
        """The base URL of the first operation, for people."""
        first = next(iter(self.operations.values()), None)
        return (
            mask_url(choose_base_url(first, self.url, self.target.base_url))
            if first
            else mask_url(self.target.base_url or self.url)
        )

    def get_operation(self, name: str) -> Operation:
        """Get the operation of this name. Raises InvalidParams with similar names."""
        if name not in self.operations:
            unknown = describe_unknown_name(name, list(self.operations), "operation")
            others = "".join(f"\n  {place}: {reason}" for place, reason in list(self.api.problems.items())[:5])
            raise InvalidParams(f"{self.target.label}: {unknown}{others}")
        return self.operations[name]


class HttpSource:
    """Any HTTP API with an OpenAPI or Swagger document, or with a profile that describes it."""

    name = PLUGIN
    schemes: Collection[str] = SCHEMES

    def claims(self, address: str) -> bool:
        """Claim a plain URL that names an OpenAPI or Swagger document."""
        return is_document(address)

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """Read the records that an operation answers; without an operation, list the operations."""
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
        """Call the operation once per record. Its fields replace arguments of the same names in the address."""
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
        """List the API's operations as tools, and its authentication."""
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
                **_list_problems(service.api),
            }

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """List the API's operations, schemas and authentication, with the hash of its operations."""
        with self._open_service(parse_target(address, context), context, use=False) as service:
            target = service.target
            return {
                "plugin": self.name,
                "service": target.profile.name
                if target.profile
                else urlsplit(service.server).hostname or service.server,
                "version_hash": _hash_operations(service),
                **_list_problems(service.api),
                "discoverable": {
                    "endpoints": [one.endpoint for one in service.operations.values()],
                    "schemas": service.api.component_schemas,
                    "authentication": service.api.authentication,
                },
            }

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Compare the API's document with the profile."""
        try:
            target = make_profile_target(profile, context)
            if not target.document:
                return ValidationResult("unknown", "The profile names no document to compare with")
            with self._open_service(target, context, use=False) as service:
                return validate(add_endpoint_tools(profile, service.operations), service.tools, context.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def check_document(self, profile: Profile, context: SourceContext) -> None:
        """Check that the document of a profile can be read, if it is a file. Raises DocumentError."""
        document = str(profile.launch.get("document", ""))
        if document and get_scheme(document) not in ("http", "https") and "${" not in document:
            load_api_file(_document_path(profile, document), context.limit)

    def list_operations(self, profile: Profile, context: SourceContext) -> Mapping[str, Operation]:
        """List the API's operations as its document describes them.

        Raises ProfileError when the profile names no document.
        """
        target = make_profile_target(profile, context)
        if not target.document:
            where = f"{profile.directory or profile.name}/_meta.json"
            raise ProfileError(
                where, "connection.document", "expected the API's document, which describes its contract"
            )
        with self._open_service(target, context, use=False) as service:
            return service.operations

    def versions(self, address: str, context: SourceContext) -> str | None:
        """Compute the hash of the operations that the profile of an address records, of all without a profile."""
        with self._open_service(parse_target(address, context), context, use=False) as service:
            return _hash_operations(service)

    @contextmanager
    def _open_service(self, target: ApiTarget, context: SourceContext, use: bool = True) -> Iterator[ApiService]:
        seconds = context.get_timeout(target.timeout)
        with ApiClient(target.named_urls, target.headers, seconds, context.limit) as client:
            api, url = _load_api(target, context, client)
            operations = api.list_operations()
            if use and not target.operation:
                for place, reason in api.problems.items():
                    context.on_event(Log("warning", f"{place}: {reason}", "patchbay.client"))
            plain = ApiService(target, api, url, operations, client)
            if use and context.check_contract is not None:
                _check_contract(plain, context)
            profile = target.profile
            full = apply_profile(operations, profile) if profile is not None and use else operations
            yield replace(plain, operations=full)


def is_described(url: str, context: SourceContext) -> bool:
    """Whether an HTTP API describes itself at a URL or at a usual path below it. Sends no headers of the caller."""
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
        path = _document_path(target.profile, target.document)
        return load_api_file(path, context.limit), path.absolute().as_uri()
    api, url = fetch_api(target.document, client)
    read = fetch_beside(client, url, context.limit)
    return Api(include_remote_parts(api.document, url, read), api.where), url


def _document_path(profile: Profile | None, document: str) -> Path:
    """Return the path of a document; in a profile it is relative to the profile's directory, which need not exist."""
    home = profile.directory if profile is not None and profile.directory is not None else Path()
    return Path(os.path.normpath(home / document))


def _list_problems(api: Api) -> dict[str, Any]:
    """List what the document describes and cannot be used, with the reasons; empty without problems."""
    rows = [{"where": place, "reason": reason} for place, reason in api.problems.items()]
    return {"problems": rows} if rows else {}


def _check_contract(service: ApiService, context: SourceContext) -> None:
    """Check the expected contract: the pin in the address, then the contract that the profile recorded."""
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


def _hash_operations(service: ApiService) -> str:
    """Compute the hash that the profile of a service holds, without one that of all operations."""
    profile = service.target.profile
    recorded = add_endpoint_tools(profile, service.operations) if profile is not None else None
    return compute_profile_hash(service.tools, recorded)


def _merge_arguments(target: ApiTarget, operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the arguments: defaults of the profile, of the address by the operation's schema, of the caller."""
    text = {key: value for key, value in target.arguments.items() if key not in given}
    defaults = operation.extra.get("defaults", {})
    found = {
        **_get_header_arguments(target, operation),
        **defaults,
        **coerce_arguments(text, operation.tool["inputSchema"]),
        **resolve_files({**target.exact, **given}, operation.tool["inputSchema"], is_api=True),
    }
    files = operation.body.files & found.keys() if operation.body is not None else ()
    return found | {name: load_data_uris(found[name], lambda text: text) for name in files}


def _get_header_arguments(target: ApiTarget, operation: Operation) -> dict[str, Any]:
    """Get the header parameters whose values are headers of every request in the address or the profile."""
    headers = {name.lower(): value for name, value in target.headers.items()}
    rows = [one for one in operation.parameters if one.place == "header" and one.name.lower() in headers]
    return {one.argument: headers[one.name.lower()] for one in rows}


def _read_pages(
    service: ApiService, operation: Operation, arguments: dict[str, Any], context: SourceContext
) -> Iterator[Record]:
    """Read the records of all requested pages, one page after another."""
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
    before: list[Record] = []
    for _ in range(paging.most if paging else 1):
        reply = service.client.send(call)
        _compare_output(operation, reply, context)
        value, records = _decode_reply(reply, paging, where, context)
        if paging is None:
            yield from records
            return
        if paging.type == "link":
            link = find_next_link(reply.find_link("next"), value, paging)
        else:
            link = find_next_value(value, len(records), arguments.get(key), paging)
        if repr(link) in seen:
            yield from records if records != before else ()
            sentence = f"{where}: the pages never end: {link!r:.80} came twice; the records up to it are given"
            context.on_event(Log("warning", sentence, "patchbay.client"))
            return
        yield from records
        if link in (None, ""):
            return
        seen.add(repr(link))
        before = records
        if paging.type == "link":
            call = _follow_link(call, str(link), where)
        else:
            key = key or find_page_parameter(paging, known, where)  # needed from the second page on
            arguments = {**arguments, key: link}
            call = build_request(operation, base, arguments)


def _follow_link(call: HttpRequest, link: str, where: str) -> HttpRequest:
    """Make the request for the next page. Raises InvalidParams for another origin: the arguments may be credentials."""
    url = urljoin(call.url, link)
    if get_origin(url) != get_origin(call.url):
        raise InvalidParams(f"{where}: the next page is at {mask_url(url)}, another server, which is not followed")
    return HttpRequest(call.method, url, call.headers, call.content)


def _decode_reply(reply: Reply, paging: Paging | None, where: str, context: SourceContext) -> tuple[Any, list[Record]]:
    """Decode an answer to its JSON value, None when it is not JSON, and to records."""
    if not reply.body:
        return None, [{"status": reply.status}] if paging is None else []
    kind = get_format_of_media_type(reply.media_type)
    if kind != "json":
        return None, list(decode_records(io.BytesIO(reply.body), kind, context.limit, reply.media_type))
    value = parse(reply.body)
    return value, list(iterate_value(find_items(value, paging, where)))


def _compare_output(operation: Operation, reply: Reply, context: SourceContext) -> None:
    warning = check_output_format(operation.name, operation.extra.get("output_format"), [reply.media_type])
    if warning:
        context.on_event(Log("warning", warning, "patchbay.client"))
