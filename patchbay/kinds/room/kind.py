"""The kind of a room's server: its lists come from the room's offer, and each call goes through the room.

A tool or prompt that its pin holds is left out, as with mounted servers; members who call inside the room use the
room's log.

The hub gives a `RoomCaller` to its kinds; a hub without rooms has none and serves no such server.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchbay.activation import Call, Events, Handler
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError
from patchbay.kind import Configuration, ConfiguredServer, Fields, Kind, ServerParts
from patchbay.occurrences.event_types import MESSAGE_SCHEMA, event_type
from patchbay.pins.offers import TOOL
from patchbay.upstreams.room_caller import RoomCaller

MESSAGE = "message"
"""The event type of a room."""

OWN_FIELDS = ("room",)
FIELDS = frozenset(
    [
        *OWN_FIELDS,
        *("$schema", "kind", "title", "description", "instructions", "icons", "enabled", "mcp_enabled", "timeout"),
        *("listing", "activity", "mask_errors"),
    ]
)


def room_handler(rooms: RoomCaller, room: str) -> Handler:
    """Return the handler of targets `{"serverId", "name", "method"?}`; the deadline of a call is its ttl there."""

    def run(call: Call) -> Events:
        target = call.target
        used = (target["serverId"], target["name"], call.arguments)
        yield from rooms.call(room, *used, call.principal, call.left(), target.get("method", TOOL))

    return run


def _check(fields: Fields, where: str) -> None:
    if not isinstance(fields.get("room"), str):
        raise ConfigError(where, "room", "expected the id of a room of this hub")


def _make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of a room's server. Raises ConfigError in a hub without rooms."""
    if server.rooms is None:
        raise ConfigError(server.origin, "kind", "expected no server of a room here: this hub has no rooms")
    room = str(server.fields["room"])
    offer = server.rooms.offer(server.name)
    found: Mapping[str, Mapping[str, Descriptor]] = {}
    problems: tuple[Problem, ...] = ()
    pins = audience = None
    if offer is not None and offer.room == room:
        listed, problems = offer.descriptors()
        pins = server.rooms.check_pins(server.name, offer.pinned_entries())
        audience = server.rooms.audience(offer)
        found = {
            kind: {name: one for name, one in entries.items() if (kind, name) not in pins.held}
            for kind, entries in listed.items()
        }
    return ServerParts(
        room_handler(server.rooms, room),
        found.get("tool", {}),
        resources=found.get("resource", {}),
        prompts=found.get("prompt", {}),
        problems=problems,
        events={} if audience is None else {MESSAGE: _message_type()},
        pins=pins,
        audience=audience,
        description="The tools, resources and prompts that the members of a room share.",
        instructions="Tools are called server__tool. They run on the machines of the members of the room.",
    )


def _message_type() -> Descriptor:
    about = "Something was said or done in the room. Each reader gets the entries that the room shows it."
    return event_type(MESSAGE, about, MESSAGE_SCHEMA, {"source": {"audience": True}}, "static")


KIND = Kind(
    "room",
    "Definition as JSON",
    language="json",
    is_configuration=True,
    configuration=Configuration(
        OWN_FIELDS,
        FIELDS,
        "a room",
        _check,
        _make_parts,
        reaches="it serves a room",
        required="room",
        is_changing=True,
    ),
)
