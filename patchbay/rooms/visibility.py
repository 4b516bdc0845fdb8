"""What the access list of a room shows to one reader: entries of servers, and the lists of them in the log.

The present policy decides, also about lists that were logged before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchbay.pins.offers import RESOURCE, TOOL
from patchbay.rooms.folding.acl import Participant, is_limited, resource_names, shows
from patchbay.rooms.record.envelope import Json

LISTS = frozenset({"tool.advertise", "mcp.announce"})
"""Types whose envelopes list the entries of a server."""


def shows_wire(
    state: Mapping[str, Any], server: str, method: str, wire: Mapping[str, Any], who: Participant | None = None
) -> bool:
    """Whether a participant sees an entry (by its descriptor as MCP has it); without one, whether some could."""
    name = str(wire.get("name", ""))
    if method == RESOURCE:
        return shows(state, server, "resources", resource_names(str(wire.get("uri", "")), name), who)
    return shows(state, server, "tools", [name], who)


def shown_envelope(state: Mapping[str, Any], readers: Sequence[Participant], envelope: Json) -> Json:
    """Return an envelope as readers see it: the envelope itself, or a list without the entries that are hidden.

    Readers see what one of them sees. A list with hidden entries has no signature: it is not what was signed.
    """
    if envelope["type"] not in LISTS or not is_limited(state):
        return envelope
    payload = envelope["payload"]
    server = str(payload.get("serverId"))

    def keeps(method: str) -> Callable[[Any], bool]:
        return lambda wire: (
            isinstance(wire, dict) and any(shows_wire(state, server, method, wire, one) for one in readers)
        )

    shown: Json = {}
    for key, method in (("tools", TOOL), ("resources", RESOURCE), ("prompts", TOOL)):
        if isinstance(payload.get(key), list):
            shown[key] = list(filter(keeps(method), payload[key]))
    if all(len(shown[key]) == len(payload[key]) for key in shown):
        return envelope
    shown |= _names_of(payload, shown)
    return {key: value for key, value in envelope.items() if key != "sig"} | {"payload": {**payload, **shown}}


def _names_of(payload: Json, shown: Json) -> Json:
    """The fields of an advertisement that name its entries, for the entries that are shown."""
    tools = {one.get("name") for one in shown.get("tools", ())}
    uris = [one.get("uri") for one in shown.get("resources", ())]
    found: Json = {}
    if "digests" in payload:
        found["digests"] = {name: digest for name, digest in payload["digests"].items() if name in tools}
    if "uris" in payload:
        found["uris"] = uris
    if "uriNames" in payload:
        found["uriNames"] = {uri: name for uri, name in payload["uriNames"].items() if uri in uris}
    if "promptNames" in payload:
        found["promptNames"] = [one.get("name") for one in shown.get("prompts", ())]
    return found
