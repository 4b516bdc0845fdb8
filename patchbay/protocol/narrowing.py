"""At the endpoint of all servers, a request that names one thing is answered by the server it belongs to.

What is named is said as that server says it; lists, discovery and what nobody has stay with the whole.
"""

from __future__ import annotations

from dataclasses import replace

from patchbay.catalogue.aggregate import Aggregate
from patchbay.catalogue.servers import Server
from patchbay.jsonrpc import Request

_NAMED = {"tools/call": "tools", "prompts/get": "prompts"}


def narrowed(request: Request, server: Server) -> tuple[Request, Server]:
    """The request and the server that answers it."""
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
    return request, server


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
