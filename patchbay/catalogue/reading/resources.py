"""Reading a resource: where a URI leads, the events of reading it, the contents that come of them.

Rules: a server's own resources come first, then its templates (which also answer for a resource that is
only listed), then what the hub itself knows
(`cid://`, `variable://`, `server://`); content is made when it is read; running a tool by its address
is for read-only tools alone; every read has a limit.
Sources: DESIGN sections 5 and 6; REQUIREMENTS VWR-27, V-C10, T6.2 to T6.5.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson

from patchbay.activation import Call, Events
from patchbay.arguments import describe_problems, problems, validator
from patchbay.boot import variable
from patchbay.catalogue.contents.reading import Contents
from patchbay.catalogue.contents.results import key_in
from patchbay.catalogue.reading.last_outputs import last_output
from patchbay.catalogue.reading.queries import arguments_of
from patchbay.catalogue.reading.uri_templates import compiled, decoded
from patchbay.catalogue.servers import Server
from patchbay.cid import canonical
from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError, InvalidParams, ResourceNotFound, ToolFailed, UnknownServer
from patchbay.events import Content, Done
from patchbay.kinds.mount.snapshots import target_of
from patchbay.store import Store
from patchbay.views.fold import Fold


class CatalogueForReading(Protocol):
    """The part of the catalogue that reading needs."""

    store: Store
    contents: Contents

    def find(self, name: str) -> Server: ...

    def all(self) -> list[Server]: ...


@dataclass(frozen=True)
class ResourceTarget:
    """Where a URI leads: the server that answers, its descriptor (None: the hub itself), the arguments in the URI."""

    uri: str
    server: Server
    descriptor: Descriptor | None = None
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def stays(self) -> bool:
        """Whether the content is the same for ever: it is part of the configuration, or named by its CID."""
        if self.descriptor is None:
            return self.uri.startswith("cid://") and "?" not in self.uri
        return not self.descriptor.target.keys().isdisjoint(("text", "blob", "cid"))

    @property
    def mime_type(self) -> str | None:
        """The media type that a resource or template says it has."""
        if self.descriptor is None or self.descriptor.kind == "tool":
            return None
        return self.descriptor.wire.get("mimeType")


def find_resource(plugged: CatalogueForReading, server: Server, uri: str, principal: str) -> ResourceTarget:
    """Where a URI leads, seen from a server. Raises ResourceNotFound, and InvalidParams for a URI that is wrong."""
    if server.upstream is not None and not _is_own_content(plugged, uri, principal):
        return ResourceTarget(uri, server, server.resources.get(uri) or unlisted(uri))
    own = server.resources.get(uri) or server.skill_files.get(uri)
    if own is not None and own.target:
        return ResourceTarget(uri, server, own)
    for key, template in server.templates.items():
        variables = compiled(template.target.get("matches", key)).match(uri)
        if variables is not None:
            return ResourceTarget(uri, server, template, dict(variables))
    scheme, _, rest = uri.partition("://")
    if scheme == "server" and "/" in rest.partition("?")[0]:
        return _tool_at(plugged, uri, rest)
    if own is not None:
        return ResourceTarget(uri, server, own)
    if scheme in ("cid", "variable", "server"):
        return ResourceTarget(uri, server)
    raise ResourceNotFound(uri)


def unlisted(uri: str) -> Descriptor:
    """A resource of a mounted server that it does not list, or lists as a template."""
    return Descriptor("resource", uri, {"uri": uri, "name": uri}, target_of("resource", uri), "discovered")


def _is_own_content(plugged: CatalogueForReading, uri: str, principal: str) -> bool:
    """Whether the hub answers for a URI beside a mounted server: a large result of its own, or the configuration.

    A large result whose key this hub did not make is one of the mounted server.
    """
    scheme, _, rest = uri.partition("://")
    cid, _, query = rest.partition("?")
    try:
        if scheme != "cid":
            return False
        own = plugged.contents.results.is_own(canonical(cid), key_in(query), principal)
        return own or plugged.contents.is_public(cid)
    except ContentError:
        return False


def _tool_at(plugged: CatalogueForReading, uri: str, rest: str) -> ResourceTarget:
    """`server://<name>/<function>?key=value`: a read-only tool and its arguments."""
    path, _, query = rest.partition("?")
    name, _, wanted = path.partition("/")
    try:
        server = plugged.find(decoded(name, uri))
    except UnknownServer as problem:
        raise ResourceNotFound(uri, problem.message) from problem
    tool = server.tools.get(decoded(wanted, uri))
    if tool is None:
        raise ResourceNotFound(uri, f"{server.name} has no tool of this name")
    if not tool.read_only:
        raise InvalidParams(f"{tool.name} of {server.name} is not known to be read-only: call it instead of reading it")
    schema = tool.wire["inputSchema"]
    arguments = arguments_of(parse_qsl(query, keep_blank_values=True), schema)
    wrong = problems(validator(schema), arguments)
    if wrong:
        raise InvalidParams(f"the arguments do not fit {server.name}/{tool.name}: {describe_problems(wrong)}")
    return ResourceTarget(uri, server, tool, arguments)


def resource_events(plugged: CatalogueForReading, server: Server, place: ResourceTarget, call: Call) -> Events:
    """The events of reading: the activation of a function or tool, or the stored content as one block.

    Raises ResourceNotFound, here or when the first event is asked for.
    """
    found = place.descriptor
    if found is None or not (found.kind == "tool" or "function" in found.target or "method" in found.target):
        return _stored(plugged, place, call.principal)
    word = f"{place.server.name}.{found.name}"
    if word in call.chain:
        raise ToolFailed(f"reading {place.uri} leads back to itself: {' -> '.join((*call.chain, word))}")
    inner = replace(call, server=place.server.name, target=found.target, arguments=place.variables)
    return place.server.activate(found, replace(inner, chain=(*call.chain, word)))


def _stored(plugged: CatalogueForReading, place: ResourceTarget, principal: str) -> Events:
    target = place.descriptor.target if place.descriptor else {}
    yield Content({"type": "resource", "resource": _content(plugged, place, target, principal)})
    yield Done()


def _content(
    plugged: CatalogueForReading, place: ResourceTarget, target: Mapping[str, Any], principal: str
) -> dict[str, Any]:
    """One MCP resource content without its final URI. Raises ResourceNotFound."""
    store, uri = plugged.store, place.uri
    if "text" in target:
        return {"uri": uri, "mimeType": "text/plain", "text": target["text"]}
    if "blob" in target:
        return {"uri": uri, "mimeType": "application/octet-stream", "blob": target["blob"]}
    if "last_output_of" in target:
        return resource_content(uri, last_output(store, place.server.name, target["last_output_of"]) or b"")
    scheme, _, rest = uri.partition("://")
    try:
        if "cid" in target:
            return resource_content(uri, store.blobs.get(target["cid"]))
        if not target and scheme == "cid":
            cid, _, query = rest.partition("?")
            return resource_content(uri, plugged.contents.read(decoded(cid, uri), key_in(query), principal))
        if "variable" in target or (not target and scheme == "variable"):
            return _variable(store, uri, target.get("variable") or decoded(rest, uri))
        return resource_content(uri, _described(plugged, decoded(rest, uri)))
    except (ContentError, UnknownServer) as problem:
        raise ResourceNotFound(uri, problem.message) from problem


def _variable(store: Store, uri: str, name: str) -> dict[str, Any]:
    value = variable(store, name)
    if value is None:
        raise ResourceNotFound(uri, f"there is no variable {name}")
    return resource_content(uri, value)


def _described(plugged: CatalogueForReading, name: str) -> bytes:
    """`server://`: every server that is served; `server://<name>`: what one of them shows."""
    if not name:
        served = [server for server in plugged.all() if server.enabled and not server.broken]
        return orjson.dumps([_summary(server) for server in served])
    server = plugged.find(name)
    groups = {"tools": server.tools, "resources": server.resources, "prompts": server.prompts}
    groups["resourceTemplates"] = server.templates
    lists = {kind: [dict(one.wire) for one in group.values()] for kind, group in groups.items()}
    return orjson.dumps({**_summary(server), "version": server.version, **lists})


def _summary(server: Server) -> dict[str, Any]:
    summary = {"name": server.name, "title": server.title, "description": server.description or None}
    summary |= {"kind": server.kind, "endpoint": f"/mcp/{server.name}"}
    return {key: value for key, value in summary.items() if value is not None}


def resource_content(uri: str, data: bytes) -> dict[str, Any]:
    """Bytes as a resource content: JSON, other text, or base64."""
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


def contents_of(fold: Fold, place: ResourceTarget, limit: int) -> list[dict[str, Any]]:
    """The `contents` of a finished reading; `limit` in bytes, unless the server has its own.

    Raises ToolFailed when the reading failed, InvalidParams when the content is larger.
    """
    result = fold.result()
    if result.get("isError"):
        texts = [block["text"] for block in result["content"] if block.get("type") == "text"]
        raise ToolFailed(f"{place.uri} could not be read: {' '.join(texts)}")
    ending = fold.ending
    if ending is not None and ending.result is not None:
        contents = list(ending.result.get("contents", []))
        _check_size(contents, place, limit)
        return contents
    plain = "application/json" if "structuredContent" in result else "text/plain"
    contents = list(_contents(result["content"], place, plain)) or [
        {"uri": place.uri, "mimeType": place.mime_type or plain, "text": ""}
    ]
    _check_size(contents, place, limit)
    return contents


def _check_size(contents: list[dict[str, Any]], place: ResourceTarget, limit: int) -> None:
    limit = place.server.config.get("limits", {}).get("read", limit)
    size = sum(_size(one) for one in contents)
    if size > limit:
        raise InvalidParams(f"{place.uri} has {size} bytes; at most {limit} are read at once", {"uri": place.uri})


def _contents(blocks: list[dict[str, Any]], place: ResourceTarget, plain: str) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block["type"] == "resource":
            found = {**block["resource"], "uri": place.uri}
            yield found | ({"mimeType": place.mime_type} if place.mime_type else {})
        elif block["type"] in ("image", "audio"):
            yield {"uri": place.uri, "mimeType": place.mime_type or block["mimeType"], "blob": block["data"]}
        else:
            text = block["text"] if block["type"] == "text" else block.get("uri", "")
            yield {"uri": place.uri, "mimeType": place.mime_type or plain, "text": text}


def _size(content: Mapping[str, Any]) -> int:
    if "blob" in content:
        return len(content["blob"]) * 3 // 4
    return len(content.get("text", "").encode())


def read_resource(
    plugged: CatalogueForReading, server: Server, uri: str, call: Call, limit: int
) -> list[dict[str, Any]]:
    """Read a resource at once: its contents. Raises ResourceNotFound, ToolFailed, InvalidParams."""
    place = find_resource(plugged, server, uri, call.principal)
    fold = Fold()
    for event in resource_events(plugged, server, place, call):
        fold.add(event)
    return contents_of(fold, place, limit)
