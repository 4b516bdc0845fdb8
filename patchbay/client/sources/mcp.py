"""The source for MCP servers: tools are called, resources and prompts read, lists given; one connection per reach.

A profile's contract is looked at once per connection, out of the very list of tools that gives arguments their types.
Sources: JN-1 to JN-12, JN-18, JN-33, JN-44, JN-47 to JN-54, JN-C13 to JN-C17.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from patchbay.client.addresses.address import Address, Named, parse_address
from patchbay.client.addresses.resolution import reached
from patchbay.client.addresses.targets import Http, Local, Reach, masked_url
from patchbay.client.connection.connection import Connection
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.coercion import coerced_record
from patchbay.client.contracts.contract import (
    ValidationResult,
    calculate_schema_hash,
    check_pin,
    contract_cid,
    output_warning,
    validate,
)
from patchbay.client.errors import McpFailure, ServerTimeout, SignInNeeded, Unreachable
from patchbay.client.profiles.layouts import Profile, reach_of, timeout_of
from patchbay.client.source import Record, SourceContext, error_record, scheme_of
from patchbay.client.sources.records import arguments_of, of_call, of_list, of_prompt, of_read
from patchbay.client.suggestions import not_listed
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log

EVERYTHING = ("tools", "resources", "templates", "prompts")
PREFIX = "mcp+"
PLAIN = ("http", "https")

Fetched = Callable[[str, SourceContext], "Iterator[Record] | PatchbayError | None"]
"""The records at a plain URL; None, or how it was refused, when an MCP server may be there."""


class McpSource:
    """Any MCP server: a program, a URL, a profile, a preset, or a server of this hub."""

    name = "mcp"
    schemes: Collection[str] = ("mcp", "http", "https", "@", "/")

    def __init__(
        self, fetched: Fetched | None = None, describes: Callable[[str, SourceContext], bool] | None = None
    ) -> None:
        """`fetched` says what a plain URL has that is no MCP server (plain_urls.py); without it all are MCP servers.

        `describes` says whether an HTTP API describes itself at a URL, which is told when no MCP server is there.
        """
        self._fetched = fetched
        self._describes = describes
        self._tools: WeakKeyDictionary[Connection, list[dict[str, Any]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def claims(self, address: str) -> bool:
        """Every `mcp+...` is ours, a launcher that is not known too: the error names those that are."""
        return address[: len(PREFIX)].lower() == PREFIX

    def reads(self, address: str, means: SourceContext, arguments: Mapping[str, Any] | None = None) -> Iterator[Record]:
        """What the address asks for; without an operation, the resources (JN-11)."""
        found = parse_address(address).with_arguments(exact=arguments)
        if self._fetched is not None and scheme_of(address) in PLAIN:
            data = self._fetched(address, means)
            if data is not None and not isinstance(data, PatchbayError):
                yield from data
                return
            connection = self._instead(data, found, means)
        else:
            connection = self._checked(found, means)
        if found.operation == "call":
            yield from self._called(found, connection, means)
        elif found.operation == "read":
            seconds = _seconds(found, means)
            result = connection.result("resources/read", {"uri": found.name}, timeout=seconds, on_event=means.tell)
            yield from of_read(result)
        elif found.operation == "prompt":
            given = {**found.arguments, **found.exact}
            params = {"name": found.name} | ({"arguments": given} if given else {})
            seconds = _seconds(found, means)
            result = connection.result("prompts/get", params, timeout=seconds, on_event=means.tell)
            yield from of_prompt(found.name, result)
        elif found.name == "all":
            for what in EVERYTHING:
                yield from of_list(what, self._listed(connection, what), found.target.described)
        else:
            what = found.name or "resources"
            yield from of_list(what, self._listed(connection, what))

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        means: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Call the tool once per record, the record's fields being arguments over those of the address (JN-12)."""
        target = parse_address(address).with_arguments(exact=arguments)
        if target.operation != "call":
            raise InvalidParams(f"{target.target.described}: expected a tool to write to (/TOOL or tool=)")
        connection = self._checked(target, means)
        for record in records:
            try:
                tool = self._tool(target.name, connection)
                given = coerced_record(arguments_of(record), tool.get("inputSchema") if tool else None)
                yield from self._called(target.with_arguments(exact=given), connection, means)
            except PatchbayError as problem:
                yield error_record("mcp_error", problem.message, tool=target.name)
                connection = self._checked(target, means)

    def inspects(self, address: str, means: SourceContext) -> dict[str, Any]:
        """Everything a server offers and says about itself."""
        found = parse_address(address)
        reach = reached(found, means.profiles(), means.environ)
        connection = self._connected(reach, means)
        lists = {
            "resourceTemplates" if what == "templates" else what: self._listed(connection, what) for what in EVERYTHING
        }
        return {
            "server": connection.info.get("name") or found.target.described,
            "transport": _transport(reach),
            "address": found.target.described,
            "reach": reach.described,
            "serverInfo": connection.info,
            "protocolVersion": connection.revision,
            "capabilities": connection.capabilities,
            **({"instructions": connection.instructions} if connection.instructions else {}),
            "contract": contract_cid(lists["tools"]),
            **lists,
        }

    def explores(self, address: str, means: SourceContext) -> dict[str, Any]:
        """Tools, resources, templates and prompts, and JN's hash of the tools (JN-54)."""
        found = self.inspects(address, means)
        target = parse_address(address).target
        service = target.name if isinstance(target, Named) else found["server"]
        kinds = ("tools", "resources", "resourceTemplates", "prompts")
        return {
            "plugin": self.name,
            "service": service,
            "version_hash": calculate_schema_hash(found["tools"]),
            "discoverable": {kind: found[kind] for kind in kinds},
        }

    def validates(self, profile: Profile, means: SourceContext) -> ValidationResult:
        """Whether the server's tools are what the profile expects; `error` when that cannot be told."""
        try:
            connection = self._connected(reach_of(profile, means.environ), means)
            return validate(profile, self._listed(connection, "tools"), means.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def versions(self, address: str, means: SourceContext) -> str | None:
        """JN's hash of all tools (JN-57)."""
        reach = reached(parse_address(address), means.profiles(), means.environ)
        return calculate_schema_hash(self._listed(self._connected(reach, means), "tools"))

    def tools(self, address: Address, means: SourceContext) -> list[dict[str, Any]]:
        """The tools of the server that an address names, asked for once per connection."""
        return self._known_tools(self._connected(reached(address, means.profiles(), means.environ), means))

    def _connected(self, reach: Reach, means: SourceContext) -> Connection:
        """The connection to a server; when there is none at a URL, the error says whether an HTTP API is there."""
        try:
            return means.connections.get(reach)
        except (Unreachable, McpFailure) as problem:
            if (
                not isinstance(reach, Http)
                or self._describes is None
                or isinstance(problem, (ServerTimeout, SignInNeeded))
            ):
                raise
            if not self._describes(reach.url, means):
                raise
            api = f"openapi+{masked_url(reach.url)}"
            raise Unreachable(
                f"{problem.message}; an HTTP API describes itself there, whose address is {api}"
            ) from problem

    def _listed(self, connection: Connection, what: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = getattr(connection, what)()
        if not all(isinstance(one, dict) for one in items):
            raise McpFailure(-32603, f"the server's list of {what} has what is no object")
        if what == "tools":
            with self._lock:
                self._tools[connection] = items
        return items

    def _known_tools(self, connection: Connection) -> list[dict[str, Any]]:
        with self._lock:
            found = self._tools.get(connection)
        return self._listed(connection, "tools") if found is None else found

    def _checked(self, address: Address, means: SourceContext) -> Connection:
        """The connection for an address, after a look at the contract that is expected of it."""
        reach = reached(address, means.profiles(), means.environ)
        connection = self._connected(reach, means)
        if address.schema and means.judge is not None:
            self._pinned(address, connection, means)
        if _is_profile(address) and means.judge is not None:
            profile = means.profiles().load(address.target.name)  # type: ignore[union-attr]
            self._judged(profile, address.name if address.operation == "call" else "", connection, means)
        return connection

    def _instead(self, refusal: PatchbayError | None, address: Address, means: SourceContext) -> Connection:
        """The connection to the server at a plain URL, which refused to be read; when there is none, that is told."""
        try:
            return self._checked(address, means)
        except Unreachable as problem:
            if refusal is None or type(problem) is not Unreachable:
                raise
            raise Unreachable(f"{refusal.message}; and no MCP server is there: {problem.message}") from problem

    def _pinned(self, address: Address, connection: Connection, means: SourceContext) -> None:
        tool = address.name if address.operation == "call" else ""
        result = check_pin(address.schema, self._known_tools(connection), means.blobs, tool)
        if result.status != "valid":
            changes = "".join(f"\n  - {change.kind}: {change.sentence}" for change in result.changes)
            raise ContractError(f"{result.message}{changes}", result.to_json())

    def _judged(self, profile: Profile, tool: str, connection: Connection, means: SourceContext) -> None:
        mark = (profile.name, id(connection))
        if profile.minimal or profile.schema_validation == "ignore" or mark in means.judged or means.judge is None:
            return
        means.judge(profile, validate(profile, self._known_tools(connection), means.blobs).for_tool(tool))
        means.judged.add(mark)

    def _tool(self, name: str, connection: Connection) -> dict[str, Any] | None:
        """The tool of this name, as the server lists it."""
        return next((one for one in self._known_tools(connection) if one.get("name") == name), None)

    def _called(self, address: Address, connection: Connection, means: SourceContext) -> Iterator[Record]:
        tool = self._tool(address.name, connection)
        arguments = address.call_arguments(tool.get("inputSchema") if tool else None)
        unknown = "" if tool else not_listed(address.name, [str(one["name"]) for one in self._known_tools(connection)])
        try:
            result = connection.call(address.name, arguments, timeout=_seconds(address, means), on_event=means.tell)
        except McpFailure as problem:
            raise (
                McpFailure(problem.code, f"{problem.message}; {unknown}", problem.data) if unknown else problem
            ) from problem
        if unknown and result.get("isError"):
            means.tell(Log("warning", unknown, "patchbay.client"))
        records = list(of_call(address.name, result))
        if _is_profile(address) and not result.get("isError"):
            self._compare_output(address, records, means)
        yield from records

    def _compare_output(self, address: Address, records: Iterable[Record], means: SourceContext) -> None:
        profile = means.profiles().load(address.target.name)  # type: ignore[union-attr]
        expected = profile.tools.get(address.name, {}).get("output_format")
        types = {str(record["mimeType"]) for record in records if "mimeType" in record}
        words = output_warning(address.name, expected, types)
        if words:
            means.tell(Log("warning", words, "patchbay.client"))


def _is_profile(address: Address) -> bool:
    return isinstance(address.target, Named) and address.target.kind == "profile"


def _seconds(address: Address, means: SourceContext) -> float:
    """The time for one request: the profile's, where it says one."""
    if not _is_profile(address):
        return means.seconds()
    tool = address.name if address.operation == "call" else ""
    return means.seconds(timeout_of(means.profiles().load(address.target.name), tool))  # type: ignore[union-attr]


def _transport(reach: Reach) -> str:
    if isinstance(reach, Http):
        return "http" if reach.transport == "auto" else reach.transport
    return "in-process" if isinstance(reach, Local) else "stdio"
