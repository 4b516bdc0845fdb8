"""Who sends a message, and under which terms: what a transport knows, and what admission makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.protocol.versions import Revision

LOCAL = "local"
"""The principal of every caller, until there are others."""

EVERYTHING = "everything"
"""The key of the set of all descriptors."""


@dataclass(slots=True)
class LegacySession:
    """A legacy session: what its signed id says (`nonce` to `opened`), and what changed since (`level`, `ended`).

    `opened` is Unix time in seconds; `id` is the whole signed string; `client` is what the client calls itself.
    """

    id: str
    nonce: str
    endpoint: str
    revision: Revision
    capabilities: Mapping[str, Any]
    principal: str
    opened: float
    level: str = "info"
    ended: bool = False
    subscribed: set[str] = field(default_factory=set)
    caught_up: bool = False
    client: str = ""


@dataclass(frozen=True, slots=True)
class TransportInfo:
    """What a transport knows of a message besides its body.

    `endpoint` is the address below /mcp/ (`echo`, `echo@bafk...`). `headers` maps lower-case names to
    trimmed values and is None where a transport has none (stdio). `streams` says that more than one
    message can be sent back. `connection` names the one peer that speaks on this wire (stdio); it is None
    where the request ids of many callers meet. `strict` says that a legacy request needs a session. `way` names the
    way in where neither the headers nor their absence do. `operator` says that the operator is proved to send it;
    it is asked only where an address is the operator's alone. `waits` says that the transport waits by itself where a
    stream has nothing to do (`store.Wait`), so that the stream holds no thread.
    """

    endpoint: str
    headers: Mapping[str, str] | None = None
    principal: str = LOCAL
    streams: bool = True
    connection: str | None = None
    strict: bool = False
    way: str = ""
    operator: bool = False
    waits: bool = False

    @property
    def version(self) -> str | None:
        return self.headers.get("mcp-protocol-version") if self.headers is not None else None

    @property
    def session_id(self) -> str | None:
        return self.headers.get("mcp-session-id") if self.headers is not None else None


@dataclass(frozen=True, slots=True)
class Caller:
    """The terms of one message: revision, capabilities, least log level (None: no log messages), session if any."""

    revision: Revision
    capabilities: Mapping[str, Any]
    log_level: str | None
    wire: TransportInfo
    session: LegacySession | None = None

    @property
    def sees(self) -> str:
        """The key of the set of descriptors that this caller may see: callers with the same key see the same."""
        return EVERYTHING

    @property
    def owner(self) -> str | None:
        """Whose request ids this caller uses: its session's or its connection's. None: it cannot cancel by id."""
        return self.session.nonce if self.session is not None else self.wire.connection

    def declares(self, capability: str) -> bool:
        return isinstance(self.capabilities.get(capability), dict)

    def extends(self, extension: str) -> bool:
        """Whether this message declares an extension, by its id."""
        declared = self.capabilities.get("extensions")
        return isinstance(declared, dict) and isinstance(declared.get(extension), dict)
