"""Which calls of 2026-07-28 survive their connection, and what names such a call among those of its principal.

A call survives when its `_meta` has a UUID of the caller as `io.patchbay/call`. With the setting `join_repeats`, a call
without one is named by its own bytes. Two equal messages may be two wishes ("pay 10 again"), so this holds only for a
principal with an identity and for a tool that says that a repeat does no harm.

The principal and the endpoint are part of every name: another principal that knows a UUID begins a call of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from patchbay.access.principals import LOCAL_ID
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Notification, Request, dump_json, encode
from patchbay.messages.callers import Caller
from patchbay.protocol.lists import APPS
from patchbay.protocol.routing import narrowed
from patchbay.topics import CALLS

CALL_KEY = "io.patchbay/call"
"""The member of `_meta` with the UUID of a call."""

AFTER_KEY = "io.patchbay/after"
"""The member of `_meta` with the number of the last event that the caller has."""

_ROUND = ("inputResponses", "requestState")


@dataclass(frozen=True, slots=True)
class CallName:
    """The name of a call that survives, of a caller with the id `principal`.

    `owner` and `id` cancel it, in every process. `topic` holds its messages; each round of questions and answers has
    its own. `digest` is that of the method, the tool and the arguments. `after` is the number of the last event that
    the caller has. `lasts` says that a call that has ended is not run again: it has a UUID of its caller.
    """

    principal: str
    owner: str
    id: str
    topic: str
    digest: str
    after: int
    lasts: bool


def name_call(request: Request, caller: Caller, server: Server, joins_repeats: bool) -> CallName | None:
    """Return the name of a call that survives its connection, None for any other. Raises InvalidParams.

    A call of a tool that this caller does not see is never joined: the ordinary way refuses it.
    """
    if request.method != "tools/call" or not caller.revision.modern:
        return None
    meta = request.params.get("_meta")
    given = meta.get(CALL_KEY) if isinstance(meta, dict) else None
    if given is None and not joins_repeats:
        return None
    routed = narrowed(request, server, caller.extends(APPS))
    name = routed.request.params.get("name")
    tool = routed.server.tools.get(name) if isinstance(name, str) else None
    if isinstance(meta, dict) and given is not None:
        id, after = _read_id(given), _read_after(meta)
    elif caller.wire.principal != LOCAL_ID and tool is not None and tool.is_repeatable:
        id, after = sha256(encode(request)).hexdigest()[:32], 0
    else:
        return None
    if tool is None:
        return None
    owner = owner_of_call(caller, id)
    rounds = [request.params.get(key) for key in _ROUND]
    content = [request.method, {key: value for key, value in request.params.items() if key != "_meta"}]
    topic = f"{CALLS}{owner.removeprefix(CALLS)}/{_digest(rounds)[:16]}"
    return CallName(caller.wire.principal, owner, id, topic, _digest(content), after, given is not None)


def named_in(notification: Notification, caller: Caller) -> tuple[str, str] | None:
    """Return owner and id of the call that a cancellation names by its UUID, None without one. Raises InvalidParams."""
    meta = notification.params.get("_meta")
    given = meta.get(CALL_KEY) if isinstance(meta, dict) and caller.revision.modern else None
    if given is None:
        return None
    id = _read_id(given)
    return owner_of_call(caller, id), id


def owner_of_call(caller: Caller, id: str) -> str:
    """Return what owns a call of this caller with this id (`RunningRequests`)."""
    return CALLS + _digest([caller.wire.principal, caller.wire.endpoint, id])


def _digest(value: Any) -> str:
    return sha256(dump_json(value)).hexdigest()


def _read_id(given: Any) -> str:
    try:
        return UUID(given).hex
    except (ValueError, AttributeError, TypeError):
        raise InvalidParams(f"params._meta[{CALL_KEY!r}] has to be a UUID, such as uuid4() returns") from None


def _read_after(meta: Mapping[str, Any]) -> int:
    after = meta.get(AFTER_KEY, 0)
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise InvalidParams(
            f"params._meta[{AFTER_KEY!r}] has to be a whole number from 0: the number behind the last dash of the id"
            " of the last event that you have"
        )
    return after
