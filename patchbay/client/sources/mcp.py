"""The source for MCP servers: call tools, read resources and prompts, give lists, over one connection per target.

The contract of a profile is checked once per connection, with the same list of tools that types the arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from patchbay.client.addresses.address import Address, NamedServer, parse_address
from patchbay.client.addresses.resolution import ResolvedAddress, resolve_address
from patchbay.client.addresses.targets import Http, Local, Target, mask_url
from patchbay.client.connection.connection import Connection
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.coercion import coerce_record
from patchbay.client.contracts.contract import (
    ValidationResult,
    check_output_format,
    check_pin,
    compute_contract_cid,
    compute_profile_hash,
    validate,
)
from patchbay.client.contracts.file_arguments import Upload, resolve_files
from patchbay.client.contracts.type_tokens import describe_parameters
from patchbay.client.contracts.wrong_arguments import describe_wrong_arguments
from patchbay.client.errors import (
    McpFailure,
    NoMcpServer,
    NotServed,
    ServerTimeout,
    SignInNeeded,
    Unreachable,
    describe_briefly,
)
from patchbay.client.profiles.layouts import Profile, get_target
from patchbay.client.source import Record, SourceContext, get_scheme, make_error_record
from patchbay.client.sources.records import (
    get_arguments,
    make_call_records,
    make_list_records,
    make_prompt_records,
    make_resource_records,
)
from patchbay.client.sources.skills import has_skills, list_skills
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log
from patchbay.raised.forms import format_raised, read_raised
from patchbay.suggestions import describe_unknown_name

LIST_METHODS: Mapping[str, Callable[[Connection, float | None], list[dict[str, Any]]]] = {
    "tools": Connection.list_tools,
    "resources": Connection.list_resources,
    "templates": Connection.list_resource_templates,
    "prompts": Connection.list_prompts,
    "skills": lambda connection, timeout: list_skills(connection),
}
"""What an address can list with `list=`, and the method that lists it."""

_METHODS = {
    **{kind: f"{kind}/list" for kind in ("tools", "resources", "prompts", "skills")},
    "templates": "resources/templates/list",
}

INSPECTED_LIST_SECONDS = 10.0
"""Seconds for one page of a list beside the tools, when everything that a server offers is shown."""

NAKED_URI_PREFIX = "mcp+"
PLAIN_URL_SCHEMES = ("http", "https")

FetchPlainUrl = Callable[[str, SourceContext], "Iterator[Record] | PatchbayError | None"]
"""Fetch the records at a plain URL. Return None or the refusal when an MCP server may be there."""


class McpSource:
    """Any MCP server: a program, a URL, a profile, a preset, or a server of this hub.

    Methods that take an address take its text, or an Address that the caller has parsed already.
    """

    name = "mcp"
    schemes: Collection[str] = ("mcp", "http", "https", "@", "/")

    def __init__(
        self,
        fetch_plain_url: FetchPlainUrl | None = None,
        is_api_described: Callable[[str, SourceContext], bool] | None = None,
    ) -> None:
        """Make a source.

        `fetch_plain_url` reads a plain URL that is not an MCP server (`plain_urls.py`); without it every URL is taken
        for an MCP server. `is_api_described` finds out whether an HTTP API describes itself at a URL; the error for a
        URL without an MCP server then names the API.
        """
        self._fetch_plain_url = fetch_plain_url
        self._is_api_described = is_api_described
        self._tools: WeakKeyDictionary[Connection, list[dict[str, Any]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def claims(self, address: str) -> bool:
        """Claim every `mcp+...`, also with an unknown launcher: the error then names the known ones."""
        return address[: len(NAKED_URI_PREFIX)].lower() == NAKED_URI_PREFIX

    def reads(
        self, address: str | Address, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """Read the records that an address asks for; an address without an operation lists the resources."""
        parsed = _parse(address).with_arguments(exact=arguments)
        if self._fetch_plain_url is not None and isinstance(address, str) and get_scheme(address) in PLAIN_URL_SCHEMES:
            data = self._fetch_plain_url(address, context)
            if data is not None and not isinstance(data, PatchbayError):
                yield from data
                return
            resolved = _resolve(parsed, context)
            connection = self._connect_after_refusal(data, resolved, context)
        else:
            resolved = _resolve(parsed, context)
            connection = self._connect_and_check(resolved, context)
        if parsed.operation == "call":
            yield from self._call_tool(resolved, connection, context)
        elif parsed.operation in ("read", "prompt"):
            yield from _read_one(resolved, connection, context)
        elif parsed.name == "all":
            for kind in _get_listable(connection):
                yield from make_list_records(
                    kind, self._list_if_possible(connection, kind, context), parsed.target.label
                )
        else:
            kind = parsed.name or "resources"
            yield from make_list_records(kind, self._list(connection, kind, context))

    def writes(
        self,
        address: str | Address,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Call the tool once per record. The record's fields replace arguments of the same names in the address."""
        parsed = _parse(address).with_arguments(exact=arguments)
        if parsed.operation != "call":
            raise InvalidParams(f"{parsed.target.label}: expected a tool to write to (/TOOL or tool=)")
        resolved = _resolve(parsed, context)
        connection = self._connect_and_check(resolved, context)
        for record in records:
            try:
                tool = self._find_tool(parsed.name, connection, context)
                fields = coerce_record(get_arguments(record), tool.get("inputSchema") if tool else None)
                yield from self._call_tool(resolved.with_arguments(fields), connection, context)
            except PatchbayError as problem:
                yield make_error_record("mcp_error", problem.message, tool=parsed.name)
                connection = self._connect_and_check(resolved, context)

    def inspects(self, address: str | Address, context: SourceContext) -> dict[str, Any]:
        """List everything that a server offers and what it says about itself.

        A list beside the tools that cannot be read, or gets no answer within INSPECTED_LIST_SECONDS, is empty. It has a
        sentence in the member `problems`; so has a list that was not read to its end.
        """
        return self._inspect(_resolve(_parse(address), context), context)

    def _inspect(self, resolved: ResolvedAddress, context: SourceContext) -> dict[str, Any]:
        connection = self.open_connection(resolved.target, context)
        lists: dict[str, list[dict[str, Any]]] = {}
        problems: dict[str, str] = {}
        for kind in _get_listable(connection):
            key = "resourceTemplates" if kind == "templates" else kind
            try:
                lists[key] = self._list(connection, kind, None, None if kind == "tools" else INSPECTED_LIST_SECONDS)
            except (ServerTimeout, McpFailure) as problem:
                if kind == "tools" or connection.closed:
                    raise
                lists[key] = []
                is_late = isinstance(problem, ServerTimeout)
                why = f"no answer within {INSPECTED_LIST_SECONDS:g} s" if is_late else describe_briefly(problem.message)
                problems[key] = f"not read: {why}"
            else:
                found = connection.list_problems.get(_METHODS[kind], ())
                problems |= {key: "; ".join(found)} if found else {}
        label = resolved.address.target.label
        return {
            "server": connection.info.get("name") or label,
            "transport": _get_transport_name(resolved.target),
            "address": label,
            "reach": resolved.target.label,
            "serverInfo": connection.info,
            "protocolVersion": connection.revision,
            "capabilities": dict(sorted(connection.capabilities.items())),  # the plain session keeps another order
            **({"instructions": connection.instructions} if connection.instructions else {}),
            "contract": compute_contract_cid(lists["tools"]),
            **({"problems": problems} if problems else {}),
            **lists,
        }

    def explores(self, address: str | Address, context: SourceContext) -> dict[str, Any]:
        """List tools with their parameters, resources, templates and prompts, with the hash that a profile holds."""
        parsed = _parse(address)
        resolved = _resolve(parsed, context)
        found = self._inspect(resolved, context)
        service = parsed.target.name if isinstance(parsed.target, NamedServer) else found["server"]
        kinds = ("resources", "resourceTemplates", "prompts")
        tools = [tool | {"parameters": describe_parameters(tool)} for tool in found["tools"]]
        return {
            "plugin": self.name,
            "service": service,
            "version_hash": compute_profile_hash(found["tools"], resolved.profile),
            "discoverable": {"tools": tools} | {kind: found[kind] for kind in kinds},
        }

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Compare the server's tools with the profile. A failure to do so is a result with the status `error`."""
        try:
            connection = self.open_connection(get_target(profile, context.environ), context)
            return validate(profile, self._list(connection, "tools", context), context.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def versions(self, address: str | Address, context: SourceContext) -> str | None:
        """Compute the hash of the tools that the profile of an address records, of all tools without a profile."""
        resolved = _resolve(_parse(address), context)
        tools = self._list(self.open_connection(resolved.target, context), "tools", context)
        return compute_profile_hash(tools, resolved.profile)

    def list_tools(self, address: str | Address, context: SourceContext) -> list[dict[str, Any]]:
        """List the tools of the server that an address names; the server is asked once per connection."""
        return self._get_tools(self.open_connection(_resolve(_parse(address), context).target, context), context)

    def connect(self, address: str | Address, context: SourceContext) -> Connection:
        """Get the connection to the server that an address names, after the check of the expected contract."""
        return self._connect_and_check(_resolve(_parse(address), context), context)

    def open_connection(self, target: Target, context: SourceContext) -> Connection:
        """Get the connection to a server. When no MCP server is at a URL, the error names the HTTP API that is."""
        try:
            return context.connections.get(target)
        except (Unreachable, McpFailure) as problem:
            if isinstance(problem, (ServerTimeout, SignInNeeded)) or not isinstance(target, Http):
                raise
            if isinstance(problem, NotServed) and problem.speaks_mcp:
                raise
            if self._is_api_described is None or not self._is_api_described(target.url, context):
                raise
            api = f"openapi+{mask_url(target.url)}"
            raise NoMcpServer(
                f"{problem.message}; an HTTP API describes itself there, whose address is {api}"
            ) from problem

    def _list(
        self, connection: Connection, kind: str, context: SourceContext | None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """List what a server has of a kind; a warning of `context` says what was wrong with the list."""
        items = LIST_METHODS[kind](connection, timeout)
        if context is not None:
            for sentence in connection.list_problems.get(_METHODS[kind], ()):
                context.on_event(Log("warning", f"{_METHODS[kind]}: {sentence}", "patchbay.client"))
        if kind == "tools":
            with self._lock:
                self._tools[connection] = items
        return items

    def _list_if_possible(self, connection: Connection, kind: str, context: SourceContext) -> list[dict[str, Any]]:
        """List what a server has of a kind; a list beside the tools that fails is empty, with a warning."""
        try:
            return self._list(connection, kind, context)
        except McpFailure as problem:
            if kind == "tools":
                raise
            sentence = f"{_METHODS[kind]}: not read: {describe_briefly(problem.message)}"
            context.on_event(Log("warning", sentence, "patchbay.client"))
            return []

    def _get_tools(self, connection: Connection, context: SourceContext) -> list[dict[str, Any]]:
        with self._lock:
            found = self._tools.get(connection)
        return self._list(connection, "tools", context) if found is None else found

    def _connect_and_check(self, resolved: ResolvedAddress, context: SourceContext) -> Connection:
        """Connect to the server of an address and check the contract that is expected of it."""
        connection = self.open_connection(resolved.target, context)
        if context.check_contract is not None:
            if resolved.address.schema:
                self._check_pin(resolved, connection, context)
            if resolved.profile is not None:
                self._check_profile(resolved.profile, resolved.tool, connection, context)
        return connection

    def _connect_after_refusal(
        self, refusal: PatchbayError | None, resolved: ResolvedAddress, context: SourceContext
    ) -> Connection:
        """Connect to a plain URL that refused a GET. When no MCP server is there, the error names the refusal too."""
        try:
            return self._connect_and_check(resolved, context)
        except Unreachable as problem:
            if refusal is None or isinstance(problem, (ServerTimeout, SignInNeeded)):
                raise
            if isinstance(problem, (NotServed, NoMcpServer)):  # its message says that no MCP server is there
                raise type(problem)(f"{refusal.message}; {problem.message}") from problem
            raise Unreachable(f"{refusal.message}; and no MCP server is there: {problem.message}") from problem

    def _check_pin(self, resolved: ResolvedAddress, connection: Connection, context: SourceContext) -> None:
        result = check_pin(resolved.address.schema, self._get_tools(connection, context), context.blobs, resolved.tool)
        if result.status != "valid":
            changes = "".join(f"\n  - {change.kind}: {change.sentence}" for change in result.changes)
            raise ContractError(f"{result.message}{changes}", result.to_json())

    def _check_profile(self, profile: Profile, tool: str, connection: Connection, context: SourceContext) -> None:
        mark = (profile.name, id(connection))
        if profile.is_minimal or profile.schema_validation == "ignore" or mark in context.checked_contracts:
            return
        if context.check_contract is not None:
            result = validate(profile, self._get_tools(connection, context), context.blobs).sort_for_tool(tool)
            context.check_contract(profile, result)
            context.checked_contracts.add(mark)

    def _find_tool(self, name: str, connection: Connection, context: SourceContext) -> dict[str, Any] | None:
        return next((one for one in self._get_tools(connection, context) if one.get("name") == name), None)

    def _call_tool(self, resolved: ResolvedAddress, connection: Connection, context: SourceContext) -> Iterator[Record]:
        address, name = resolved.address, resolved.tool
        tool = self._find_tool(name, connection, context)
        arguments = address.make_call_arguments(
            tool.get("inputSchema") if tool else None, _make_upload(resolved.target, connection)
        )
        known = [one["name"] for one in self._get_tools(connection, context)]
        wrong = describe_wrong_arguments(tool, arguments) if tool else describe_unknown_name(name, known)
        timeout = context.get_timeout(resolved.timeout)
        try:
            result = connection.call_tool(name, arguments, timeout=timeout, on_event=context.on_event)
        except McpFailure as problem:
            if not wrong:
                raise
            raise McpFailure(problem.code, f"{problem.message}; {wrong}", problem.data) from problem
        failed = bool(result.get("isError"))
        if failed and (raised := read_raised(result)):
            context.on_event(Log("error", "\n".join(format_raised(raised))))
        if wrong and failed:
            context.on_event(Log("warning", wrong, "patchbay.client"))
        if failed and context.explain_denial is not None:
            _explain_denial(resolved.target, result, context.explain_denial, context)
        records = list(make_call_records(name, result))
        if resolved.profile is not None and not failed:
            _compare_output(resolved.profile, name, records, context)
        yield from records


def _make_upload(named: Target, connection: Connection) -> Upload | None:
    """Return the function that uploads a content to the server of a connection; None for a server without a URL.

    `named` is the server as its address says it: the connection to a program may be that of another process.
    """
    target = connection.target if isinstance(named, Http) else named
    if not isinstance(target, Http):
        return None

    def upload_there(data: bytes) -> str | None:
        from patchbay.client.uploads import upload  # loads the HTTP library

        return upload(target, data)

    return upload_there


def _explain_denial(
    target: Target, result: Mapping[str, Any], explain: Callable[[Target, str], str], context: SourceContext
) -> None:
    """Return what a confined program was refused, as the texts of a failed result show it."""
    content = result.get("content")
    texts = [one.get("text") for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []
    hint = explain(target, "\n".join(text for text in texts if isinstance(text, str)))
    if hint:
        context.on_event(Log("warning", hint, "patchbay.client"))


def _get_listable(connection: Connection) -> Iterator[str]:
    """Give the lists of a server. It has skills only when it declares the extension."""
    yield from (kind for kind in LIST_METHODS if kind != "skills" or has_skills(connection))


def _parse(address: str | Address) -> Address:
    return parse_address(address) if isinstance(address, str) else address


def _resolve(address: Address, context: SourceContext) -> ResolvedAddress:
    return resolve_address(address, context.get_profiles(), context.environ)


def _read_one(resolved: ResolvedAddress, connection: Connection, context: SourceContext) -> Iterator[Record]:
    """Read the resource or the prompt that an address names."""
    address, timeout = resolved.address, context.get_timeout(resolved.timeout)
    if address.operation == "read":
        params: dict[str, Any] = {"uri": address.name}
        result = connection.get_result("resources/read", params, timeout=timeout, on_event=context.on_event)
        return make_resource_records(result)
    arguments = {**address.arguments, **resolve_files(address.exact, None)}
    params = {"name": address.name} | ({"arguments": arguments} if arguments else {})
    result = connection.get_result("prompts/get", params, timeout=timeout, on_event=context.on_event)
    return make_prompt_records(address.name, result)


def _compare_output(profile: Profile, tool: str, records: Iterable[Record], context: SourceContext) -> None:
    """Warn when the media types of a result are not the `output_format` that the profile gives for the tool."""
    expected = profile.tools.get(tool, {}).get("output_format")
    types = {str(record["mimeType"]) for record in records if "mimeType" in record}
    warning = check_output_format(tool, expected, types)
    if warning:
        context.on_event(Log("warning", warning, "patchbay.client"))


def _get_transport_name(target: Target) -> str:
    if isinstance(target, Http):
        return "http" if target.transport == "auto" else target.transport
    return "in-process" if isinstance(target, Local) else "stdio"
