"""Read a resource: find its source by URI, make the events of reading it, and return its contents.

Order: the server's own resources, then its templates (also for a resource that is listed without a source), then the
hub's own schemes (`cid://`, `variable://`, `server://`). Content is made when it is read. Only read-only tools can be
run by their URI; a redirect of a tool calls any tool (`catalogue_hub.py`). Every read has a size limit. MCP
specification, server/resources.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson

from patchbay.activation import Call, Conceal, Events
from patchbay.arguments import describe_problems, problems, validator
from patchbay.boot import read_variable
from patchbay.catalogue.contents.reading import ReadableContents
from patchbay.catalogue.contents.results import key_in_query
from patchbay.catalogue.reading.last_outputs import last_output
from patchbay.catalogue.reading.queries import parse_arguments
from patchbay.catalogue.reading.uri_templates import compile_template, percent_decode
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError, InvalidParams, PatchbayError, ResourceNotFound, ToolFailed, UnknownServer
from patchbay.events import Content, Done
from patchbay.store import Store
from patchbay.upstreams.lists.snapshots import target_of
from patchbay.views.fold import Fold


class CatalogueForReading(Protocol):
    """The part of the catalogue that reading uses."""

    store: Store

    @property
    def contents(self) -> ReadableContents: ...

    @property
    def shows_everything(self) -> bool: ...

    def find(self, name: str) -> Server: ...

    def all(self) -> list[Server]: ...

    def shows_source(self, name: str) -> bool: ...

    def may_read(self, server: str, uri: str) -> bool: ...

    def forbids(self, server: str, uri: str) -> bool: ...


@dataclass(frozen=True)
class ResourceTarget:
    """The source of a URI: the server that answers, its descriptor (None: the hub itself), the arguments in the URI."""

    uri: str
    server: Server
    descriptor: Descriptor | None = None
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def is_permanent(self) -> bool:
        """Whether the content never changes: it is part of the configuration, or addressed by its CID."""
        if self.descriptor is None:
            return self.uri.startswith("cid://") and "?" not in self.uri
        return not self.descriptor.target.keys().isdisjoint(("text", "blob", "cid"))

    @property
    def mime_type(self) -> str | None:
        """The media type that a resource or template declares."""
        if self.descriptor is None or self.descriptor.kind == "tool":
            return None
        return self.descriptor.wire.get("mimeType")

    @property
    def meta(self) -> dict[str, Any]:
        """The member `_meta` of a content, with the policy and permissions of an app; empty for other resources.

        Clients read it from the content first (SEP-1865, resource metadata).
        """
        meta = self.descriptor.wire.get("_meta") if self.descriptor is not None else None
        return {"_meta": {"ui": meta["ui"]}} if isinstance(meta, Mapping) and "ui" in meta else {}


def find_resource(catalogue: CatalogueForReading, server: Server, uri: str, principal: str) -> ResourceTarget:
    """Find the source of a URI, seen from a server. Raises ResourceNotFound, and InvalidParams for an invalid URI."""
    if server.upstream is not None and not _is_own_content(catalogue, uri, principal):
        return ResourceTarget(uri, server, server.resources.get(uri) or _unlisted(catalogue, server, uri))
    own = server.resources.get(uri)
    if own is None and not catalogue.forbids(server.name, uri):
        own = server.skill_files.get(uri)
    if own is not None and own.target:
        return ResourceTarget(uri, server, own)
    for key, template in server.templates.items():
        variables = compile_template(template.target.get("matches", key)).match(uri)
        if variables is not None and not catalogue.forbids(server.name, uri):
            return ResourceTarget(uri, server, template, dict(variables))
    scheme, _, rest = uri.partition("://")
    if scheme == "server" and "/" in rest.partition("?")[0]:
        return _tool_at(catalogue, uri, rest)
    if own is not None:
        return ResourceTarget(uri, server, own)
    if scheme in ("cid", "variable", "server"):
        return ResourceTarget(uri, server)
    raise ResourceNotFound(uri)


def _unlisted(catalogue: CatalogueForReading, server: Server, uri: str) -> Descriptor:
    """Return a descriptor for a resource that a mounted server does not list. Raises ResourceNotFound.

    The caller may read it if a grant covers the URI itself, or a template that matches it.
    """
    visible = catalogue.may_read(server.name, uri) or any(compile_template(key).match(uri) for key in server.templates)
    if not visible or catalogue.forbids(server.name, uri):
        raise ResourceNotFound(uri)
    return unlisted_resource(uri)


def unlisted_resource(uri: str) -> Descriptor:
    """Return a descriptor for a resource that a mounted server does not list, or lists as a template."""
    return Descriptor("resource", uri, {"uri": uri, "name": uri}, target_of("resource", uri), "discovered")


def _is_own_content(catalogue: CatalogueForReading, uri: str, principal: str) -> bool:
    """Whether the hub itself answers a URI of a mounted server: a large result of the hub, or its configuration.

    A large result whose key another hub made belongs to the mounted server.
    """
    scheme, _, rest = uri.partition("://")
    cid, _, query = rest.partition("?")
    try:
        if scheme != "cid":
            return False
        own = catalogue.contents.is_own_result(cid, key_in_query(query), principal)
        return own or catalogue.contents.is_public(cid)
    except ContentError:
        return False


def _tool_at(catalogue: CatalogueForReading, uri: str, rest: str) -> ResourceTarget:
    """Find `server://<name>/<function>?key=value`: a read-only tool and its arguments."""
    server, tool, query = _find_tool(catalogue, uri, rest)
    if not tool.read_only:
        raise InvalidParams(f"{tool.name} of {server.name} is not marked read-only: call it instead of reading it")
    return _with_arguments(uri, server, tool, query)


def find_changing_tool(catalogue: CatalogueForReading, uri: str) -> ResourceTarget | None:
    """Find the tool that a URI names when it is not marked read-only. Raises ResourceNotFound and InvalidParams."""
    scheme, _, rest = uri.partition("://")
    if scheme != "server" or "/" not in rest.partition("?")[0]:
        return None
    server, tool, query = _find_tool(catalogue, uri, rest)
    return None if tool.read_only else _with_arguments(uri, server, tool, query)


def _find_tool(catalogue: CatalogueForReading, uri: str, rest: str) -> tuple[Server, Descriptor, str]:
    """Return the server, the tool and the query of `server://<name>/<function>?key=value`."""
    path, _, query = rest.partition("?")
    name, _, wanted = path.partition("/")
    try:
        server = catalogue.find(percent_decode(name, uri))
    except UnknownServer as problem:
        raise ResourceNotFound(uri, problem.message) from problem
    tool = server.tools.get(percent_decode(wanted, uri))
    if tool is None:
        raise ResourceNotFound(uri, f"{server.name} has no tool of this name")
    return server, tool, query


def _with_arguments(uri: str, server: Server, tool: Descriptor, query: str) -> ResourceTarget:
    schema = tool.wire["inputSchema"]
    arguments = parse_arguments(parse_qsl(query, keep_blank_values=True), schema)
    wrong = problems(validator(schema), arguments)
    if wrong:
        raise InvalidParams(f"the arguments do not fit {server.name}/{tool.name}: {describe_problems(wrong)}")
    return ResourceTarget(uri, server, tool, arguments)


def resource_events(
    catalogue: CatalogueForReading,
    server: Server,
    resource: ResourceTarget,
    call: Call,
    conceal: Conceal | None = None,
) -> Events:
    """Return the events of reading: the activation of a function or tool, or the stored content as one block.

    `conceal` as in `activation.activate`. Raises ResourceNotFound, here or at the first event, and ToolFailed for a
    resource of a toolset that is not available.
    """
    found = resource.descriptor
    if found is not None and found.origins and found.kind != "tool":
        assert call.hub is not None, "a toolset is served by a hub"
        return call.hub.pass_on_reading(found, resource.uri, call)
    if found is None or not (found.kind == "tool" or "function" in found.target or "method" in found.target):
        return _stored_content(catalogue, resource, call.principal)
    word = f"{resource.server.name}.{found.name}"
    if word in call.chain:
        way = " -> ".join((*call.chain, word))
        raise ToolFailed(f"the reading of {resource.uri} came back to itself, so it was ended: {way}")
    inner = replace(call, server=resource.server.name, target=found.target, arguments=resource.variables)
    return resource.server.activate(found, replace(inner, chain=(*call.chain, word)), conceal)


def content_of_result(uri: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool as the content of a resource: its texts, or else its first block with bytes."""
    blocks = result.get("content", [])
    found = next((block for block in blocks if block.get("type") in ("image", "audio")), None)
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    if found is not None and not texts:
        return {"uri": uri, "mimeType": found["mimeType"], "blob": found["data"]}
    inner = next((block["resource"] for block in blocks if block.get("type") == "resource"), None)
    if inner is not None and not texts:
        return dict(inner)
    return {"uri": uri, "mimeType": "text/plain", "text": "\n".join(texts)}


def _stored_content(catalogue: CatalogueForReading, resource: ResourceTarget, principal: str) -> Events:
    target = resource.descriptor.target if resource.descriptor else {}
    yield Content({"type": "resource", "resource": _content(catalogue, resource, target, principal)})
    yield Done()


def _content(
    catalogue: CatalogueForReading, resource: ResourceTarget, target: Mapping[str, Any], principal: str
) -> dict[str, Any]:
    """Return one MCP resource content without its final URI. Raises ResourceNotFound."""
    store, uri = catalogue.store, resource.uri
    if "text" in target:
        return {"uri": uri, "mimeType": "text/plain", "text": target["text"]}
    if "blob" in target:
        return {"uri": uri, "mimeType": "application/octet-stream", "blob": target["blob"]}
    if "last_output_of" in target:
        return resource_content(uri, last_output(store, resource.server.name, target["last_output_of"]) or b"")
    scheme, _, rest = uri.partition("://")
    try:
        if "cid" in target:
            return resource_content(uri, store.blobs.get(target["cid"]))
        if not target and scheme == "cid":
            cid, _, query = rest.partition("?")
            return resource_content(
                uri, catalogue.contents.read(percent_decode(cid, uri), key_in_query(query), principal)
            )
        if "variable" in target or (not target and scheme == "variable"):
            return _variable(catalogue, uri, target.get("variable"), rest)
        return resource_content(uri, _describe_servers(catalogue, percent_decode(rest, uri)))
    except (ContentError, UnknownServer) as problem:
        raise ResourceNotFound(uri, problem.message) from problem


def shows_variable(catalogue: CatalogueForReading, server: Server, uri: str, name: str, principal: str) -> bool:
    """Whether a URI, seen from a server, shows a variable to this reader."""
    try:
        found = find_resource(catalogue, server, uri, principal)
        shown = found.descriptor.target.get("variable") if found.descriptor is not None else None
        if shown is None and uri.startswith("variable://") and catalogue.shows_everything:
            shown = percent_decode(uri.removeprefix("variable://"), uri)
    except PatchbayError:
        return False
    return shown == name


def _variable(catalogue: CatalogueForReading, uri: str, configured: str | None, rest: str) -> dict[str, Any]:
    """Return the value of the variable that a resource shows, or that a URI names, for readers of the whole hub."""
    name = configured or percent_decode(rest, uri)
    value = read_variable(catalogue.store, name) if configured or catalogue.shows_everything else None
    if value is None:
        raise ResourceNotFound(uri, f"there is no variable {name}")
    return resource_content(uri, value)


def _describe_servers(catalogue: CatalogueForReading, name: str) -> bytes:
    """Describe `server://` (every served server) or `server://<name>` (the lists of one server) as JSON."""
    if not name:
        served = [server for server in catalogue.all() if server.enabled and not server.broken]
        return orjson.dumps([_summary(server) for server in served])
    server = catalogue.find(name)
    groups = {"tools": server.tools, "resources": server.resources, "prompts": server.prompts}
    groups["resourceTemplates"] = server.templates
    lists = {kind: [dict(one.wire) for one in group.values()] for kind, group in groups.items()}
    return orjson.dumps({**_summary(server), "version": server.version, **lists})


def _summary(server: Server) -> dict[str, Any]:
    summary = {"name": server.name, "title": server.title, "description": server.description or None}
    summary |= {"kind": server.kind, "endpoint": f"/mcp/{server.name}"}
    return {key: value for key, value in summary.items() if value is not None}


def resource_content(uri: str, data: bytes) -> dict[str, Any]:
    """Return bytes as a resource content: JSON, other text, or base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        blob = base64.b64encode(data).decode()
        return {"uri": uri, "mimeType": "application/octet-stream", "blob": blob}
    return {"uri": uri, "mimeType": "application/json" if _is_json(data) else "text/plain", "text": text}


def _is_json(data: bytes) -> bool:
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def collect_contents(fold: Fold, resource: ResourceTarget, limit: int) -> list[dict[str, Any]]:
    """Return the `contents` of a finished read; `limit` in bytes, unless the server has its own limit.

    Raises ToolFailed when the read failed, InvalidParams when the content is larger.
    """
    result = fold.result()
    if result.get("isError"):
        texts = [block["text"] for block in result["content"] if block.get("type") == "text"]
        raise ToolFailed(f"{resource.uri} could not be read: {' '.join(texts)}")
    ending = fold.ending
    if ending is not None and ending.result is not None:
        contents = list(ending.result.get("contents", []))
        _check_size(contents, resource, limit)
        return contents
    plain = "application/json" if "structuredContent" in result else "text/plain"
    contents = list(_contents(result["content"], resource, plain)) or [
        {"uri": resource.uri, "mimeType": resource.mime_type or plain, "text": ""}
    ]
    _check_size(contents, resource, limit)
    return contents


def _check_size(contents: list[dict[str, Any]], resource: ResourceTarget, limit: int) -> None:
    limit = resource.server.config.get("limits", {}).get("read", limit)
    size = sum(_size(one) for one in contents)
    if size > limit:
        raise InvalidParams(f"{resource.uri} has {size} bytes; at most {limit} are read at once", {"uri": resource.uri})


def _contents(blocks: list[dict[str, Any]], resource: ResourceTarget, plain: str) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block["type"] == "resource":
            found = {**resource.meta, **block["resource"], "uri": resource.uri}
            yield found | ({"mimeType": resource.mime_type} if resource.mime_type else {})
        elif block["type"] in ("image", "audio"):
            yield {"uri": resource.uri, "mimeType": resource.mime_type or block["mimeType"], "blob": block["data"]}
        else:
            text = block["text"] if block["type"] == "text" else block.get("uri", "")
            yield {"uri": resource.uri, "mimeType": resource.mime_type or plain, "text": text, **resource.meta}


def _size(content: Mapping[str, Any]) -> int:
    if "blob" in content:
        return len(content["blob"]) * 3 // 4
    return len(content.get("text", "").encode())


def read_resource(
    catalogue: CatalogueForReading, server: Server, uri: str, call: Call, limit: int
) -> list[dict[str, Any]]:
    """Read a resource and return its contents. Raises ResourceNotFound, ToolFailed, InvalidParams."""
    resource = find_resource(catalogue, server, uri, call.principal)
    fold = Fold()
    for event in resource_events(catalogue, server, resource, call):
        fold.add(event)
    return collect_contents(fold, resource, limit)
