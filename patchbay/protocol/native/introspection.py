"""Describes the native interface: its namespaces and methods, their schemas, and one hash of all.

It lists only callable methods. The hash is equal on every machine with the same servers; it is computed once for each
state of the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.events import Data
from patchbay.protocol.native.names import CannotBegin, Params, TooMany, activations, bound

DIGITS = 16
"""Hexadecimal digits of the hash."""

Known = Mapping[str, tuple[Server, tuple[str, ...]]]

_HASHES: ServerCache[str, str] = ServerCache()


def plexus_hash(whole: Aggregate) -> str:
    """Return 16 hexadecimal digits that change when a namespace, its version or its methods change."""

    def compute() -> str:
        parts = (f"{name}:{server.version}:{','.join(keys)}" for name, (server, keys) in activations(whole).items())
        return sha256(";".join(sorted(parts)).encode()).hexdigest()[:DIGITS]

    return _HASHES.get(whole, "", compute)


def introspect(method: str, params: Params, whole: Aggregate) -> Data | None:
    """Return the answer of one of the hub's own methods; None for another method. Raises CannotBegin."""
    row = METHODS.get(method) or METHODS.get(method.replace(".", "_", 1))
    if row is None:
        return None
    names, answer = row
    try:
        words = bound(params, names, ())
    except TooMany as problem:
        raise _invalid(method, names, problem.message) from problem
    strange = [name for name, word in words.items() if name not in names or not isinstance(word, str)]
    if strange:
        raise _invalid(method, names, f"expected strings for {', '.join(names) or 'nothing'}; not {strange[0][:100]!r}")
    return answer(whole, *(words.get(name) for name in names))


def _invalid(method: str, names: tuple[str, ...], reason: str) -> CannotBegin:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    hints = {"method": method, "reason": reason, "method_schema": schema, "action": "call_plexus_schema"}
    return CannotBegin(f"the params do not fit {method}: {reason}", "invalid_params", hints)


def _schema(whole: Aggregate) -> Data:
    known = activations(whole)
    rows = [{**_head(server), "methods": list(keys)} for server, keys in known.values()]
    total = sum(len(keys) for _, keys in known.values())
    return Data({"activations": rows, "total_methods": total}, "plexus.schema")


def _hash(whole: Aggregate) -> Data:
    return Data({"hash": plexus_hash(whole)}, "plexus.hash")


def _activation_schema(whole: Aggregate, namespace: str | None, method: str | None) -> Data:
    server, keys = _find_activation(activations(whole), namespace)
    if method is None:
        return Data({"oneOf": [_variant(server, key) for key in keys]}, "plexus.activation_schema")
    if method not in keys:
        hints = {"activation": server.name, "method": method, "available_methods": list(keys)}
        hints |= {"action": "call_activation_schema", "namespace": server.name}
        sentence = f"there is no method {method!r:.140} in {server.name}; it has: {', '.join(keys)}"
        raise CannotBegin(sentence, "method_not_found", hints)
    return Data(_variant(server, method), "plexus.method_schema")


def _full_schema(whole: Aggregate, namespace: str | None) -> Data:
    known = activations(whole)
    if namespace is not None:
        return Data(_full(*_find_activation(known, namespace)), "plexus.full_schema")
    return Data({"activations": [_full(server, keys) for server, keys in known.values()]}, "plexus.full_schema")


def _find_activation(known: Known, namespace: str | None) -> tuple[Server, tuple[str, ...]]:
    found = known.get(namespace or "")
    if found is None:
        name = namespace or ""
        problem = f"there is no activation {name!r:.140}" if name else "the namespace is missing"
        hints = {"activation": name, "action": "call_plexus_schema"}
        raise CannotBegin(f"{problem}; there are: {', '.join(known)}", "activation_not_found", hints)
    return found


def _head(server: Server) -> dict[str, Any]:
    return {"namespace": server.name, "version": server.version, "description": server.description}


def _variant(server: Server, key: str) -> dict[str, Any]:
    """Return one method as a case of its activation's schema: its name and the schema of its params."""
    wire = server.tools[key].wire
    schema = wire["inputSchema"]
    if "$defs" in schema:
        # With its own $id, the references inside the schema still lead to its own definitions.
        schema = {"$id": f"urn:patchbay:{server.version}:{key}", **schema}
    return {
        "type": "object",
        "description": wire.get("description", ""),
        "properties": {"method": {"const": key}, "params": schema},
        "required": ["method", "params"],
    }


def _full(server: Server, keys: tuple[str, ...]) -> dict[str, Any]:
    return {**_head(server), "methods": [_method(server, key) for key in keys]}


def _method(server: Server, key: str) -> dict[str, Any]:
    wire = server.tools[key].wire
    row = {"name": key, "description": wire.get("description", ""), "params": wire["inputSchema"]}
    return row | ({"returns": wire["outputSchema"]} if "outputSchema" in wire else {})


METHODS: Mapping[str, tuple[tuple[str, ...], Callable[..., Data]]] = {
    "plexus_schema": ((), _schema),
    "plexus_activation_schema": (("namespace", "method"), _activation_schema),
    "plexus_full_schema": (("namespace",), _full_schema),
    "plexus_hash": ((), _hash),
}
"""The hub's own methods: the names of their parameters, and the answering function. `plexus.schema` works too."""
