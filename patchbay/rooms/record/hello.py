"""The first message of a session: the capabilities of a participant, its key, and its privacy profile.

Privacy profiles; the first one logs most, the last one least:

| profile        | the member's name in the log        | `agent` | contents of its envelopes                         |
| -------------- | ----------------------------------- | ------- | ------------------------------------------------- |
| `persistent`   | its principal                       | logged  | kept                                              |
| `pseudonymous` | a name that only this room knows    | logged  | kept; this is the default                         |
| `ephemeral`    | the same, forgotten when it leaves  | no      | kept for `room_replay` seconds; their CID is logged |
| `ghost`        | a new name for each session         | no      | kept for `room_replay` seconds; no CID is logged  |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.rooms.record.canonical import decode_key
from patchbay.rooms.record.envelope import check_bounds
from patchbay.rooms.record.errors import BadFrame

PROTOCOL = "ENSO-1"
PROFILES = ("persistent", "pseudonymous", "ephemeral", "ghost")
DEFAULT_PROFILE = "pseudonymous"
CACHE_STORES = ("memory", "disk", "s3", "ipfs")
CACHE_SCOPES = ("session", "room", "global")
MAX_CAPABILITIES = 256
MAX_CAPABILITY_CHARACTERS = 200
MAX_AGENT_CHARACTERS = 200

SERVER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The form of a server's id in a room."""

CLIENT, CALL, HOST, SERVER = "mcp.client", "tool.call", "tool.host", "mcp.server:"


@dataclass(frozen=True, slots=True)
class Hello:
    """A hello that was read. `caps` are in the order given; `key` is a public key (base64 of 32 bytes) or None."""

    caps: tuple[str, ...]
    profile: str = DEFAULT_PROFILE
    agent: Mapping[str, str] | None = None
    cache: Mapping[str, Any] | None = None
    key: str | None = None


def read_hello(found: Mapping[str, Any]) -> Hello:
    """Read the payload of a hello. Raises BadFrame for a wrong `proto`, no `caps`, or a field of a wrong form.

    Without `privacy` the profile is pseudonymous. With `allowLogging: false` it is at least ephemeral.
    """
    check_bounds(dict(found))
    if found.get("proto") != PROTOCOL:
        raise BadFrame(f"the hello has the proto {found.get('proto')!r:.40}; expected {PROTOCOL!r}")
    caps = read_capabilities(found.get("caps"))
    if not caps:
        raise BadFrame("the hello has no caps; expected a list of at least one capability, such as tool.call")
    key = found.get("key")
    if key is not None and decode_key(key) is None:
        raise BadFrame("the hello's key is not an Ed25519 public key; expected the base64 of its 32 bytes")
    return Hello(caps, _profile(found.get("privacy")), _agent(found.get("agent")), _cache(found.get("cache")), key)


def read_capabilities(found: Any) -> tuple[str, ...]:
    """Read a list of capabilities, each once. Raises BadFrame."""
    if not isinstance(found, list) or len(found) > MAX_CAPABILITIES:
        raise BadFrame(f"caps is not a list of at most {MAX_CAPABILITIES} capabilities")
    for cap in found:
        if not isinstance(cap, str) or not 0 < len(cap) <= MAX_CAPABILITY_CHARACTERS or not cap.isprintable():
            raise BadFrame(f"the capability {cap!r:.80} is not a string of 1 to {MAX_CAPABILITY_CHARACTERS} characters")
        if cap.startswith(SERVER) and not SERVER_ID.fullmatch(cap.removeprefix(SERVER)):
            raise BadFrame(
                f"the capability {cap!r:.80} names no server; expected mcp.server: and 1 to 64 of A-Z a-z 0-9 _ . -"
            )
    return tuple(dict.fromkeys(found))


def has_streams(caps: tuple[str, ...] | list[str]) -> bool:
    """Whether a session with these capabilities receives stream envelopes."""
    return any(cap == "stream" or cap.endswith(".stream") for cap in caps)


def _profile(found: Any) -> str:
    if found is None:
        return DEFAULT_PROFILE
    if not isinstance(found, dict) or found.get("profile", DEFAULT_PROFILE) not in PROFILES:
        raise BadFrame(f"the hello's privacy has no known profile; expected one of {', '.join(PROFILES)}")
    for name in ("wantsE2E", "allowLogging", "allowTelemetry"):
        if not isinstance(found.get(name, False), bool):
            raise BadFrame(f"the hello's privacy.{name} is not a boolean")
    profile = str(found.get("profile", DEFAULT_PROFILE))
    quiet = found.get("allowLogging") is False and profile in ("persistent", "pseudonymous")
    return "ephemeral" if quiet else profile


def _agent(found: Any) -> Mapping[str, str] | None:
    if found is None:
        return None
    known = {"name", "version"}
    texts = isinstance(found, dict) and all(isinstance(found.get(name, ""), str) for name in known)
    if not texts or not found.get("name") or any(len(found.get(name, "")) > MAX_AGENT_CHARACTERS for name in known):
        raise BadFrame(f"the hello's agent has no name, or a text of more than {MAX_AGENT_CHARACTERS} characters")
    return {name: found[name] for name in sorted(known) if name in found}


def _cache(found: Any) -> Mapping[str, Any] | None:
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("store") not in CACHE_STORES:
        raise BadFrame(f"the hello's cache names no store; expected one of {', '.join(CACHE_STORES)}")
    if found.get("scope", "room") not in CACHE_SCOPES:
        raise BadFrame(f"the hello's cache names no scope; expected one of {', '.join(CACHE_SCOPES)}")
    return {name: found[name] for name in ("store", "scope", "supportsPartial", "maxBytes") if name in found}
