"""The source for HTTP APIs that describe themselves: operations of OpenAPI 3.x and Swagger 2 documents are called.

An operation is to an API what a tool is to an MCP server, with the same contract, hash and drift; so a profile of the
plugin `http` is validated as any other. A profile may also describe its endpoints itself (`endpoints`, `base_url`).
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

from patchbay.client.addresses.targets import masked_url
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.coercion import coerced, coerced_record
from patchbay.client.contracts.contract import (
    ValidationResult,
    check_pin,
    contract_cid,
    output_warning,
    schema_hash,
    validate,
)
from patchbay.client.openapi.documents import api_at, api_in_file
from patchbay.client.openapi.http_client import ApiClient, ApiFailure, Reply, origin
from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.openapi.pagination import (
    Paging,
    first_value,
    items_of,
    next_link,
    next_value,
    paging_of,
    parameter_of,
)
from patchbay.client.openapi.requests import Call, base_url, call_of
from patchbay.client.profiles.layouts import Profile
from patchbay.client.source import Record, SourceContext, error_record
from patchbay.client.sources.formats import decoded_records, format_of_type, of_value
from patchbay.client.sources.http_profiles import described_by, overlaid, with_tools
from patchbay.client.sources.http_targets import (
    PLUGIN,
    SCHEMES,
    Target,
    is_document,
    target_of,
    target_of_profile,
)
from patchbay.client.sources.records import arguments_of
from patchbay.client.suggestions import not_listed
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log
from patchbay.jsonrpc import parse

PROBE_SECONDS = 5.0
"""Time for one answer while it is found out whether an API is there."""


@dataclass(frozen=True, slots=True)
class Service:
    """An API at work: what it describes, where that was found, and the client that speaks to it."""

    target: Target
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
            masked_url(base_url(first, self.url, self.target.base))
            if first
            else masked_url(self.target.base or self.url)
        )

    def operation(self, name: str) -> Operation:
        """The operation of this name. Raises InvalidParams with those there are."""
        if name not in self.operations:
            unknown = not_listed(name, list(self.operations), "operation")
            raise InvalidParams(f"{self.target.described}: {unknown}")
        return self.operations[name]


class HttpSource:
    """Any HTTP API with an OpenAPI or Swagger document, or with a profile that describes it."""

    name = PLUGIN
    schemes: Collection[str] = SCHEMES

    def claims(self, address: str) -> bool:
        """A plain URL is ours when it names an OpenAPI or Swagger document."""
        return is_document(address)

    def reads(self, address: str, means: SourceContext, arguments: Mapping[str, Any] | None = None) -> Iterator[Record]:
        """The records that an operation answers; without one, the operations."""
        with self._service(target_of(address, means), means) as service:
            target = service.target
            if not target.operation:
                for one in service.operations.values():
                    yield {"type": "operation", **one.endpoint}
                return
            operation = service.operation(target.operation)
            yield from _answers(service, operation, _arguments(target, operation, arguments or {}), means)

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        means: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Call the operation once per record, its fields being arguments over those of the address (JN-12)."""
        with self._service(target_of(address, means), means) as service:
            target = service.target
            if not target.operation:
                raise InvalidParams(f"{target.described}: expected an operation to write to (operation=NAME)")
            operation = service.operation(target.operation)
            for record in records:
                given = {**(arguments or {}), **coerced_record(arguments_of(record), operation.tool["inputSchema"])}
                try:
                    yield from _answers(service, operation, _arguments(target, operation, given), means)
                except PatchbayError as problem:
                    extras = problem.data if isinstance(problem, ApiFailure) and isinstance(problem.data, dict) else {}
                    yield error_record("http_error", problem.message, operation=operation.name, **extras)

    def inspects(self, address: str, means: SourceContext) -> dict[str, Any]:
        """The API, its operations as tools, and how it wants to be signed in to."""
        with self._service(target_of(address, means), means, use=False) as service:
            return {
                "server": service.api.title or service.server,
                "transport": "http",
                "address": service.target.described,
                "reach": service.server,
                "document": masked_url(service.url),
                "contract": contract_cid(service.tools),
                "tools": service.tools,
                "resources": [],
                "authentication": service.api.authentication,
            }

    def explores(self, address: str, means: SourceContext) -> dict[str, Any]:
        """Endpoints and schemas, and the hash of all operations (JN-54)."""
        with self._service(target_of(address, means), means, use=False) as service:
            target = service.target
            return {
                "plugin": self.name,
                "service": target.profile.name
                if target.profile
                else urlsplit(service.server).hostname or service.server,
                "version_hash": schema_hash(service.tools),
                "discoverable": {
                    "endpoints": [one.endpoint for one in service.operations.values()],
                    "schemas": service.api.component_schemas,
                    "authentication": service.api.authentication,
                },
            }

    def validates(self, profile: Profile, means: SourceContext) -> ValidationResult:
        """Whether the API's operations are what the profile expects; `error` when that cannot be told."""
        try:
            target = target_of_profile(profile, means)
            if not target.document:
                return ValidationResult("unknown", "The profile names no document to compare with")
            with self._service(target, means, use=False) as service:
                return validate(with_tools(profile, service.operations), service.tools, means.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def operations(self, profile: Profile, means: SourceContext) -> Mapping[str, Operation]:
        """The API's present operations, as its document describes them. Raises ProfileError when none is named."""
        target = target_of_profile(profile, means)
        if not target.document:
            where = f"{profile.directory or profile.name}/_meta.json"
            raise ProfileError(
                where, "connection.document", "expected the API's document; nothing else says its contract"
            )
        with self._service(target, means, use=False) as service:
            return service.operations

    def versions(self, address: str, means: SourceContext) -> str | None:
        """The hash of all operations."""
        with self._service(target_of(address, means), means, use=False) as service:
            return schema_hash(service.tools)

    @contextmanager
    def _service(self, target: Target, means: SourceContext, use: bool = True) -> Iterator[Service]:
        seconds = means.seconds(target.timeout)
        with ApiClient(target.chosen, target.headers, seconds, means.limit) as client:
            api, url = _described(target, means, client)
            operations = api.operations()
            plain = Service(target, api, url, operations, client)
            if use and means.judge is not None:
                _check(plain, means)
            profile = target.profile
            full = overlaid(operations, profile) if profile is not None and use else operations
            yield replace(plain, operations=full)


def is_described(url: str, means: SourceContext) -> bool:
    """Whether an HTTP API describes itself at a URL or in a usual place below it. Sends no headers of the caller."""
    try:
        with ApiClient((url,), {}, min(means.seconds(), PROBE_SECONDS), means.limit) as client:
            api_at(url, client)
    except PatchbayError:
        return False
    return True


def _described(target: Target, means: SourceContext, client: ApiClient) -> tuple[Api, str]:
    if not target.document:
        assert target.profile is not None
        return described_by(target.profile), target.base
    if target.file:
        home = target.profile.directory if target.profile and target.profile.directory else Path()
        return api_in_file(home / target.document, means.limit), Path(home / target.document).absolute().as_uri()
    return api_at(target.document, client)


def _check(service: Service, means: SourceContext) -> None:
    """A look at the contract that is expected: a pin in the address, what the profile recorded."""
    target, profile = service.target, service.target.profile
    if target.schema:
        result = check_pin(target.schema, service.tools, means.blobs, target.operation)
        if result.status != "valid":
            changes = "".join(f"\n  - {change.kind}: {change.sentence}" for change in result.changes)
            raise ContractError(f"{result.message}{changes}", result.to_json())
    if profile is None or not target.document or profile.schema_validation == "ignore" or means.judge is None:
        return
    mark = (PLUGIN, profile.name)
    if profile.schema_hash is not None and mark not in means.judged:
        means.judge(profile, validate(with_tools(profile, service.operations), service.tools, means.blobs))
        means.judged.add(mark)


def _arguments(target: Target, operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments: the profile's defaults, those of the address by the operation's schema, those of the caller."""
    text = {key: value for key, value in target.arguments.items() if key not in given}
    defaults = operation.extra.get("defaults", {})
    return {
        **_from_headers(target, operation),
        **defaults,
        **coerced(text, operation.tool["inputSchema"]),
        **target.exact,
        **given,
    }


def _from_headers(target: Target, operation: Operation) -> dict[str, Any]:
    """The header parameters that the address or the profile gives a value as a header of every request."""
    headers = {name.lower(): value for name, value in target.headers.items()}
    rows = [one for one in operation.parameters if one.place == "header" and one.name.lower() in headers]
    return {one.argument: headers[one.name.lower()] for one in rows}


def _answers(
    service: Service, operation: Operation, arguments: dict[str, Any], means: SourceContext
) -> Iterator[Record]:
    """The records of all the pages that are asked for, as they come."""
    target = service.target
    where = f"{target.described}: {operation.name}"
    paging = paging_of(target.paging or operation.extra.get("pagination", {}), where)
    base = base_url(operation, service.url, target.base)
    known = operation.tool["inputSchema"].get("properties", {})
    cursor = paging is not None and paging.type == "cursor"
    key = parameter_of(paging, known, where) if paging and not cursor else ""
    if paging and paging.type in ("page", "offset"):
        arguments = {**arguments, key: first_value(paging, arguments.get(key))}
    call = call_of(operation, base, arguments)
    seen: set[str] = set()
    for _ in range(paging.most if paging else 1):
        reply = service.client.send(call)
        _compare_output(operation, reply, means)
        value, records = _decoded(reply, paging, where, means)
        yield from records
        if paging is None:
            return
        if paging.type == "link":
            link = next_link(reply.headers.get("link", ""), value, paging)
            call = _linked(call, link, where) if link else call
        else:
            link = next_value(value, len(records), arguments.get(key), paging)
            if link is not None:
                key = key or parameter_of(paging, known, where)  # of no matter as long as there is one page only
                arguments = {**arguments, key: link}
                call = call_of(operation, base, arguments)
        if link in (None, ""):
            return
        if repr(link) in seen:
            raise InvalidParams(f"{where}: the pages never end: {link!r:.80} came twice")
        seen.add(repr(link))


def _linked(call: Call, link: str, where: str) -> Call:
    """The request for the next page. Raises InvalidParams when it is elsewhere: the arguments may be credentials."""
    url = urljoin(call.url, link)
    if origin(url) != origin(call.url):
        raise InvalidParams(f"{where}: the next page is at {masked_url(url)}, another server, which is not followed")
    return Call(call.method, url, call.headers, call.content)


def _decoded(reply: Reply, paging: Paging | None, where: str, means: SourceContext) -> tuple[Any, list[Record]]:
    """An answer as a JSON value, when it is one, and as records."""
    if not reply.body:
        return None, [{"status": reply.status}] if paging is None else []
    kind = format_of_type(reply.media_type)
    if kind != "json":
        return None, list(decoded_records(io.BytesIO(reply.body), kind, means.limit, reply.media_type))
    value = parse(reply.body)
    return value, list(of_value(items_of(value, paging, where)))


def _compare_output(operation: Operation, reply: Reply, means: SourceContext) -> None:
    words = output_warning(operation.name, operation.extra.get("output_format"), [reply.media_type])
    if words:
        means.tell(Log("warning", words, "patchbay.client"))
