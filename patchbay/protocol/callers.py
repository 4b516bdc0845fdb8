"""Who sends a message, and under which terms: what a transport knows, and what admission makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.protocol.versions import Revision


@dataclass(slots=True)
class Session:
    """A legacy session: what its signed id says (`nonce` to `opened`), and what changed since (`level`, `ended`).

    `opened` is Unix time in seconds; `id` is the whole signed string.
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
    checked: float = 0.0


@dataclass(frozen=True, slots=True)
class Wire:
    """What a transport knows of a message besides its body.

    `endpoint` is the address below /mcp/ (`echo`, `echo@bafk...`). `headers` maps lower-case names to
    trimmed values and is None where a transport has none (stdio). `streams` says that more than one
    message can be sent back.
    """

    endpoint: str
    headers: Mapping[str, str] | None = None
    principal: str = "local"
    streams: bool = True

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
    wire: Wire
    session: Session | None = None

    def declares(self, capability: str) -> bool:
        return isinstance(self.capabilities.get(capability), dict)
