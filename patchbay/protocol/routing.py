"""Routes a request to the server that owns the tool, prompt, resource or task that it names.

At the endpoint of all servers, a request that names one of these goes to its server, with the name on that server;
lists, discovery and unknown names stay with the aggregate. A call of `call_tool` becomes a call of the tool itself,
with the same id, `_meta` and answers to questions; only `RoutedRequest.proxied` shows the difference. Headers are
compared with the body before.

A request of an app names it in `_meta` (`io.patchbay/app`) and goes to the server of the app, with the names that the
app uses: those of its own server. Clients that show apps and do not name them reach such a tool, or another app, while
no other server has one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.app_uris import APP_SCHEME, split_app_uri
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.aggregate.public_names import former_public_name, public_name
from patchbay.catalogue.search.tool_search import search_server
from patchbay.catalogue.servers.listing import CALL, SEARCH
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import SCRIPT_TOOLS
from patchbay.jsonrpc import Request
from patchbay.protocol.toolset_apps import find_only_app, find_only_tool, find_resource_of_app, find_tool_of_app
from patchbay.upstreams.lists.snapshots import APP

_NAMED = {"tools/call": "tools", "prompts/get": "prompts"}


class RoutedRequest(NamedTuple):
    """A request and the server that answers it.

    `proxied` says that the client called `call_tool`; `asked_uri` is the public URI of an app that it reads. `app` is
    the URI of the app that sends the request, on the server that answers it; empty if no server here has it.
    """

    request: Request
    server: Server
    proxied: bool = False
    asked_uri: str | None = None
    app: str | None = None


def narrowed(request: Request, server: Server, shows_apps: bool = False) -> RoutedRequest:
    """Return the request with the names of the server that answers it; `shows_apps` says that the client shows apps."""
    app = _app_in(request)
    if app is not None:
        return _from_app(request, server, app)
    routed = _narrowed(request, server)
    if shows_apps and isinstance(server, Aggregate) and routed.server is server:
        owner = _owner_for_apps(request, server)
        return RoutedRequest(request, owner) if owner is not None else routed
    if shows_apps and routed.server.is_composed:
        return _with_names_of_toolset(routed)
    return routed


def _with_names_of_toolset(routed: RoutedRequest) -> RoutedRequest:
    """Return the request of an app, which the client does not name, with the names that its toolset has for it."""
    request, server = routed.request, routed.server
    name, uri = request.params.get("name"), request.params.get("uri")
    if request.method == "tools/call" and isinstance(name, str) and name not in server.tools:
        found = find_only_tool(server, name)
        if found is not None:
            return routed._replace(request=replace(request, params={**request.params, "name": found}))
    if request.method == "resources/read" and isinstance(uri, str) and uri not in server.resources:
        found = find_only_app(server, uri)
        if found is not None:
            params = {**request.params, "uri": found}
            return routed._replace(request=replace(request, params=params), asked_uri=routed.asked_uri or uri)
    return routed


def _owner_for_apps(request: Request, server: Aggregate) -> Server | None:
    """Return the server whose own name for a tool, or URI for an app, a request has; None unless it is the only one."""
    name, uri = request.params.get("name"), request.params.get("uri")
    if request.method == "tools/call" and isinstance(name, str):
        found = server.app_tool(name)
        return found[0] if found is not None else None
    if request.method == "resources/read" and isinstance(uri, str):
        return server.app_resource(uri)
    return None


def _app_in(request: Request) -> str | None:
    """Return the URI of the app that sends a request, empty if it is not one; None for any other request."""
    meta = request.params.get("_meta")
    app = meta.get(APP) if meta is not None and isinstance(meta, Mapping) else None
    if app is None or request.method not in ("tools/call", "resources/read"):
        return None
    return app if isinstance(app, str) and app.startswith(APP_SCHEME) else ""


def _from_app(request: Request, server: Server, app: str) -> RoutedRequest:
    """Return the request of an app with the names of the server of the app, which answers it.

    Where no server has the app, the request stays as it is and `app` is empty: it may call and read nothing.
    """
    params, asked = dict(request.params), None
    name, uri = params.get("name"), params.get("uri")
    if not app:
        return RoutedRequest(request, server, app=app)
    if isinstance(server, Aggregate):
        found = server.app_owner(app)
        if found is None:
            return RoutedRequest(request, server, app="")
        owner, app = found
        public = server.owner("tools", name) if isinstance(name, str) and name not in owner.tools else None
        params["name"] = public[1] if public is not None and public[0] is owner else name
        mine = server.app_owner(uri) if isinstance(uri, str) else None
        if mine is not None and mine[0] is owner:
            params["uri"], asked = mine[1], uri
        server = owner
    if server.is_composed:
        if not _name_as_toolset(params, server, app):
            return RoutedRequest(request, server, app="")
        asked = asked or (uri if isinstance(uri, str) else None)
    params["name"] = _name_behind_hub(server, app, params.get("name"))
    params["_meta"] = {**params["_meta"], APP: app}
    kept = {key: value for key, value in params.items() if key in request.params}
    return RoutedRequest(replace(request, params=kept), server, asked_uri=asked, app=app)


def _name_as_toolset(params: dict[str, Any], server: Server, app: str) -> bool:
    """Give the params of a request of an app the names that a toolset has; return whether the app may use them."""
    for member, find in (("name", find_tool_of_app), ("uri", find_resource_of_app)):
        given = params.get(member)
        if isinstance(given, str):
            params[member] = find(server, app, given)
    return params.get("name", "") is not None and params.get("uri", "") is not None


def _name_behind_hub(server: Server, app: str, name: object) -> object:
    """Return the name by which a mounted hub lists a tool of the app's server; the name itself for any other tool."""
    named = split_app_uri(app)
    if not isinstance(name, str) or name in server.tools or named is None:
        return name
    candidates = (public_name(named[0], name), former_public_name(named[0], name))
    return next((public for public in candidates if public in server.tools), name)


def _narrowed(request: Request, server: Server) -> RoutedRequest:
    if request.method == "tools/call" and server.has_front_tools:
        return _from_front(request, server)
    if not isinstance(server, Aggregate):
        return RoutedRequest(request, server)
    uri = request.params.get("uri")
    if request.method == "resources/read" and isinstance(uri, str):
        owner = server.app_owner(uri)
        if owner is not None:
            return RoutedRequest(replace(request, params={**request.params, "uri": owner[1]}), owner[0], asked_uri=uri)
    return RoutedRequest(*_owned(request, server))


def _from_front(request: Request, server: Server) -> RoutedRequest:
    """Return a call at a server before whose tools some of the hub stand: those of a search, or of scripts."""
    proxied = False
    if server.is_search_active:
        inner = _called(request.params)
        proxied = inner is not None
        request = replace(request, params=inner) if inner is not None else request
        if request.params.get("name") in (SEARCH, CALL):
            return RoutedRequest(request, search_server(server), proxied)
    if server.has_scripts and request.params.get("name") in SCRIPT_TOOLS:
        from patchbay.scripting.front import script_server

        return RoutedRequest(request, script_server(server), proxied)
    return RoutedRequest(*_owned(request, server), proxied)


def public_contents(
    contents: list[dict[str, Any]], server: Server, uri: str, asked: str | None, whole: Aggregate | None
) -> list[dict[str, Any]]:
    """Return what a server gave for a URI under the URIs that the client knows.

    `asked` is the URI that the client read, where the server has another one. At the endpoint of all servers (`whole`),
    contents under a URI of the hub or of another server stand under the URI that was read.
    """
    asked = asked or uri
    shown = []
    for one in contents:
        name = one.get("uri")
        is_foreign = whole is not None and isinstance(name, str) and name != uri and not whole.may_name(server, name)
        shown.append({**one, "uri": asked} if name == uri or is_foreign else one)
    return shown


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
        if found is not None:
            named = {**reference, "uri": found[1]}
            return replace(request, params={**request.params, "ref": named}), found[0]
    return request, server
