"""Finds the tool and the arguments of a native method and its params.

`namespace.method` is one tool of one server; `namespace_method` is the older spelling, and a namespace alone is the
tool with the name of its server. The longest matching namespace wins. An unknown method or wrong params raise
CannotBegin, which names the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.reading.uri_owners import Owner
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed, UnknownServer
from patchbay.views.native import Kind

Params = Mapping[str, Any] | Sequence[Any]
Activations = dict[str, tuple[Server, tuple[str, ...]]]


class CannotBegin(ToolFailed):
    """A call that cannot begin: `kind` and `hints` go into the guidance item, `segments` is its provenance."""

    def __init__(
        self, message: str, kind: Kind, hints: dict[str, Any], segments: tuple[str, ...] = ("plexus",)
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.hints = hints
        self.segments = segments


_ACTIVATIONS: ServerCache[str, Activations] = ServerCache()


def activations(whole: Aggregate) -> Activations:
    """Return every namespace with methods, sorted: its server and the sorted names of its methods."""

    def compute() -> Activations:
        servers = {server.name: server for server, _ in whole.dotted["tools"].values()}
        owned = sorted((server.name, key) for server, key in whole.dotted["tools"].values())
        names = {name: tuple(key for of, key in owned if of == name) for name in sorted(servers)}
        return {name: (servers[name], keys) for name, keys in names.items()}

    return _ACTIVATIONS.get(whole, "", compute)


def find(catalogue: VisibleCatalogue, method: str) -> tuple[Server, Descriptor]:
    """Return the server and the tool of a method. Raises CannotBegin."""
    whole = catalogue.aggregate()
    owner = find_owner(whole, method)
    if owner is None:
        raise _not_found(catalogue, whole, method)
    return owner[0], owner[0].tools[owner[1]]


def find_owner(whole: Aggregate, method: str) -> Owner | None:
    """Return the server and the tool's name on it, or None."""
    return whole.dotted["tools"].get(method) or _find_single_tool(whole, method) or whole.owner("tools", method)


def _find_single_tool(whole: Aggregate, namespace: str) -> Owner | None:
    return whole.dotted["tools"].get(f"{namespace}.{namespace}")


def _not_found(catalogue: VisibleCatalogue, whole: Aggregate, method: str) -> CannotBegin:
    known = activations(whole)
    fitting = [name for name in known if method == name or method.startswith((f"{name}.", f"{name}_"))]
    if not fitting:
        namespace = method.partition("." if "." in method else "_")[0]
        where = {"activation": namespace, "action": "call_plexus_schema"}
        return CannotBegin(_no_activation(catalogue, namespace), "activation_not_found", where)
    namespace = max(fitting, key=len)
    rest, methods = method[len(namespace) + 1 :], known[namespace][1]
    hints: dict[str, Any] = {"activation": namespace, "method": rest, "available_methods": list(methods)}
    clash = next((problem.reason for problem in whole.problems if problem.where == method), None)
    close = get_close_matches(rest, methods, n=1, cutoff=0.4)
    if close:
        hints |= {"action": "try_method", "method": f"{namespace}.{close[0]}"}
    else:
        hints |= {"action": "call_activation_schema", "namespace": namespace}
    what = f"there is no method {rest!r:.140} in {namespace}" if rest else f"{namespace} is not a method"
    return CannotBegin(f"{what}; {clash or 'it has: ' + ', '.join(methods)}", "method_not_found", hints)


def _no_activation(catalogue: VisibleCatalogue, namespace: str) -> str:
    try:
        server = catalogue.find(namespace)
    except UnknownServer as problem:
        return problem.message
    return f"the server {server.name} has no tools"


def unfit(server: Server, descriptor: Descriptor, reason: str) -> CannotBegin:
    """Return the error for params that do not fit a tool, with the tool's schema."""
    schema = descriptor.wire["inputSchema"]
    hints = {"method": f"{server.name}.{descriptor.name}", "reason": reason, "method_schema": schema}
    hints |= {"action": "call_activation_schema", "namespace": server.name}
    return CannotBegin(reason, "invalid_params", hints, (server.name,))


class TooMany(ToolFailed):
    """More positional params than parameters."""


def bound(params: Params, names: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    """Return params by name. An array is bound in the order of `names`; null omits an optional parameter.

    Raises TooMany.
    """
    if isinstance(params, Mapping):
        return dict(params)
    if len(params) > len(names):
        known = f": {', '.join(names)}" if names else ""
        raise TooMany(f"{len(params)} params were given by position, and there are {len(names)}{known}")
    pairs = zip(names, params, strict=False)
    return {name: value for name, value in pairs if value is not None or name in required}
