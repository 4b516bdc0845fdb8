"""Routes a request to the server that owns the tool, prompt, resource or task that it names.

At the endpoint of all servers, a request that names one of these goes to its server, with the name on that server;
lists, discovery and unknown names stay with the aggregate. A call of `call_tool` becomes a call of the tool itself,
with the same id, `_meta` and answers to questions; only `RoutedRequest.proxied` shows the difference. Headers are
compared with the body before.
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
    """A request and the server that answers it.

    `proxied` says that the client called `call_tool`; `asked_uri` is the public URI of an app that it reads.
    """

    request: Request
    server: Server
    proxied: bool = False
    asked_uri: str | None = None


def narrowed(request: Request, server: Server) -> RoutedRequest:
    """Return the request with the names of the server that answers it."""
    if request.method == "tools/call" and server.is_search_active:
        inner = _called(request.params)
        proxied = inner is not None
        request = replace(request, params=inner) if inner is not None else request
        if request.params.get("name") in (SEARCH, CALL):
            return RoutedRequest(request, search_server(server), proxied)
        return RoutedRequest(*_owned(request, server), proxied)
    uri = request.params.get("uri")
    if request.method == "resources/read" and isinstance(server, Aggregate) and isinstance(uri, str):
        owner = server.app_owner(uri)
        if owner is not None:
            return RoutedRequest(replace(request, params={**request.params, "uri": owner[1]}), owner[0], asked_uri=uri)
    return RoutedRequest(*_owned(request, server))


def _called(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the params of the call inside a `call_tool`; None for any other call, and for one without a name."""
    given = params.get("arguments")
    if params.get("name") != CALL or not isinstance(given, dict):
        return None
    name, arguments = given.get("name"), given.get("arguments", {})
    # `call_tool` itself refuses arguments that do not fit its schema, as every tool does.
    if not isinstance(name, str) or not isinstance(arguments, dict) or given.keys() - {"name", "arguments"}:
        return None
    return {**params, "name": name, "arguments": arguments}


def _owned(request: Request, server: Server) -> tuple[Request, Server]:
    """Return the request and the server that owns the named entry."""
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
    """Route a task of a mounted server, whose id is `server.id` here; all other tasks belong to the hub."""
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
