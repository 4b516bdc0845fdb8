"""Which server answers a request, and as what: the one that has what the request names, as that server says it.

At the endpoint of all servers a request that names one thing goes to the server it belongs to; lists, discovery
and what nobody has stay with the whole. Where `call_tool` stands in front of the tools, calling it is calling the
tool: its id, `_meta` and answers to questions stay, so that nothing behind this file can tell the two apart but by
`RoutedRequest.proxied`. Whatever a client sent in headers has been compared with what it sent in the body before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.catalogue.aggregate import Aggregate
from patchbay.catalogue.listing import CALL, SEARCH
from patchbay.catalogue.search import search_server
from patchbay.catalogue.servers import Server
from patchbay.jsonrpc import Request

_NAMED = {"tools/call": "tools", "prompts/get": "prompts"}


class RoutedRequest(NamedTuple):
    """A request and the server that answers it; `proxied` where the client called `call_tool`, not the tool itself."""

    request: Request
    server: Server
    proxied: bool = False


def narrowed(request: Request, server: Server) -> RoutedRequest:
    """The request as the server that answers it knows it."""
    if request.method == "tools/call" and server.is_search_active:
        inner = _called(request.params)
        proxied = inner is not None
        request = replace(request, params=inner) if inner is not None else request
        if request.params.get("name") in (SEARCH, CALL):
            return RoutedRequest(request, search_server(server), proxied)
        return RoutedRequest(*_owned(request, server), proxied)
    return RoutedRequest(*_owned(request, server))


def _called(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The params of the call that a `call_tool` asks for; None for any other call, and for one without a name."""
    given = params.get("arguments")
    if params.get("name") != CALL or not isinstance(given, dict):
        return None
    name, arguments = given.get("name"), given.get("arguments", {})
    # What does not fit its schema is refused by it, with the words that any tool has for that.
    if not isinstance(name, str) or not isinstance(arguments, dict) or given.keys() - {"name", "arguments"}:
        return None
    return {**params, "name": name, "arguments": arguments}


def _owned(request: Request, server: Server) -> tuple[Request, Server]:
    """The request and the server that has what it names."""
    if not isinstance(server, Aggregate):
        return request, server
    kind, name = _NAMED.get(request.method), request.params.get("name")
    if kind and isinstance(name, str):
        owner = server.owner(kind, name)
        if owner is not None:
            return replace(request, params={**request.params, "name": owner[1]}), owner[0]
    uri = request.params.get("uri")
    if request.method == "resources/read" and isinstance(uri, str):
        return request, server.reader(uri) or server
    if request.method == "completion/complete":
        return _completion(request, server)
    if request.method.startswith("tasks/"):
        return _task(request, server)
    return request, server


def _task(request: Request, server: Aggregate) -> tuple[Request, Server]:
    """A task of a mounted server, which is called `server.id` here; all other tasks are the hub's own."""
    id = request.params.get("taskId")
    if not isinstance(id, str):
        return request, server
    mounted = {one.name: one for one, _ in server.owners["tools"].values() if one.upstream is not None}
    name = max((name for name in mounted if id.startswith(f"{name}.")), key=len, default=None)
    if name is None:
        return request, server
    return replace(request, params={**request.params, "taskId": id[len(name) + 1 :]}), mounted[name]


def _completion(request: Request, server: Aggregate) -> tuple[Request, Server]:
    reference = request.params.get("ref")
    if not isinstance(reference, dict):
        return request, server
    if reference.get("type") == "ref/prompt" and isinstance(reference.get("name"), str):
        owner = server.owner("prompts", reference["name"])
        if owner is not None:
            named = {**reference, "name": owner[1]}
            return replace(request, params={**request.params, "ref": named}), owner[0]
    uri = reference.get("uri")
    if isinstance(uri, str):
        found = server.owner("templates", uri) or server.owner("resources", uri)
        return request, found[0] if found else server
    return request, server
