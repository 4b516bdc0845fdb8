"""Serve the requests of a tool in a worker: check them, and carry them out in the hub.

A worker's claim about its identity is ignored: server, principal and chain are those of its call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from patchbay.activation import Call, Hub
from patchbay.errors import ToolFailed
from patchbay.kinds.python.workers.frames import REPLY, BadFrame, failure_message, failure_value, pack_frame

log = logging.getLogger(__name__)

TOOL_REQUESTS = ("read", "call")
"""Requests that may run tools themselves: each is served on its own thread, while the call's thread keeps reading."""


def serve_request(number: int, method: str, arguments: list[Any], call: Call) -> bytes:
    """Serve a request of a worker and return the frame of its reply; `number` identifies the request."""
    try:
        if call.hub is None:
            raise ToolFailed("this call runs without a hub")
        _check(method, arguments)
        return pack_frame(REPLY, [number, True, _REQUESTS[method](call.hub, call, *arguments)])
    except Exception as problem:
        if problem is not (known := failure_message(problem)):
            log.warning("the hub failed to %s for a tool of %s", method, call.server, exc_info=problem)
        return pack_frame(REPLY, [number, False, failure_value(known)])


def parse_request(body: Any) -> tuple[int, str, list[Any]]:
    """Return the number, the method and the arguments of a request. Raises BadFrame."""
    if not isinstance(body, list) or len(body) < 2 or not isinstance(body[0], int) or body[1] not in _KINDS:
        raise BadFrame("an unknown request")
    number, method, *arguments = body
    return number, method, arguments


def _check(method: str, arguments: list[Any]) -> None:
    """Raise ToolFailed for arguments of the wrong types: an author may use a number as a key."""
    kinds = _KINDS[method]
    if len(arguments) != len(kinds) or not all(map(isinstance, arguments, kinds)):
        takes = ", ".join("any" if kind is object else kind.__name__ for kind in kinds)
        given = ", ".join(type(one).__name__ for one in arguments)
        raise ToolFailed(f"{method} takes ({takes}); got ({given})")


def _read(hub: Hub, call: Call, uri: str, further: list[Any]) -> Any:
    return hub.read(uri, replace(call, chain=(*call.chain, *map(str, further))))


def _call(hub: Hub, call: Call, server: str, tool: str, arguments: dict[str, Any]) -> Any:
    return hub.call(server, tool, arguments, call)


def _get(hub: Hub, call: Call, key: str) -> list[Any]:
    try:
        return [hub.state(call.server, call)[key]]
    except KeyError:
        return []


def _set(hub: Hub, call: Call, key: str, value: Any) -> None:
    hub.state(call.server, call)[key] = value


def _delete(hub: Hub, call: Call, key: str) -> bool:
    try:
        del hub.state(call.server, call)[key]
    except KeyError:
        return False
    return True


_REQUESTS: Mapping[str, Callable[..., Any]] = {
    "read": _read,
    "call": _call,
    "start": lambda hub, call, function, arguments: hub.start(function, arguments, call),
    "configured": lambda hub, call, kind: hub.configured(kind, call),
    "changed": lambda hub, call, kind: hub.changed(call.server, kind),
    "updated": lambda hub, call, uri: hub.updated(call.server, uri),
    "emit": lambda hub, call, event, data, id: hub.emit(call.server, event, data, id),
    "folder": lambda hub, call: str(hub.folder(call.server)),
    "state.get": _get,
    "state.set": _set,
    "state.delete": _delete,
    "state.keys": lambda hub, call: list(hub.state(call.server, call)),
    "state.starting": lambda hub, call, prefix: hub.state(call.server, call).starting(prefix),
    "state.several": lambda hub, call, keys: hub.state(call.server, call).several(map(str, keys)),
    "state.swap": lambda hub, call, changes, expected: hub.state(call.server, call).swap(changes, expected),
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "read": (str, list),
    "call": (str, str, dict),
    "start": (str, dict),
    "configured": (str,),
    "changed": (str,),
    "updated": (str,),
    "emit": (str, dict, str),
    "folder": (),
    "state.get": (str,),
    "state.set": (str, object),
    "state.delete": (str,),
    "state.keys": (),
    "state.starting": (str,),
    "state.several": (list,),
    "state.swap": (dict, dict),
}
