"""How to open a connection: a frozen value that the official client and the plain HTTP session both read.

`AgreedSession` holds the answers of a server that has agreed on a revision with a plain HTTP session: the official
client uses them instead of asking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchbay.client.addresses.targets import Era, Target
from patchbay.jsonrpc import Exchange
from patchbay.processes.confinement.programs import ProgramConfinement

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]

MAX_LIST_PAGES = 1000
"""Pages of one list."""


@dataclass(frozen=True)
class AgreedSession:
    """The result of `server/discover` (`modern`) or of `initialize`, and the session that the server has begun."""

    result: Json
    modern: bool
    session_id: str | None


def complete_handshake(result: Json) -> Json:
    """Return the result of `initialize` or `server/discover` with the members that some servers leave out.

    The specification requires `capabilities` and, in `serverInfo`, `name` and `version`.
    """
    complete = dict(result)
    if not isinstance(result.get("capabilities"), dict):
        complete["capabilities"] = {}
    if "protocolVersion" in result:
        info = result.get("serverInfo")
        complete["serverInfo"] = {"name": "", "version": "", **(info if isinstance(info, dict) else {})}
    return complete


@dataclass(frozen=True)
class ConnectionPlan:
    """How to open a connection. `limit` is the largest message in bytes.

    `confinement` is that of a program, None for a program with all rights of this process.
    """

    target: Target
    era: Era
    name: str
    version: str
    environ: Mapping[str, str]
    limit: int
    capabilities: frozenset[str]
    extensions: Mapping[str, Any] | None = None
    auth: httpx2.Auth | None = None
    exchange: Exchange | None = None
    log_level: str | None = None
    agreed: AgreedSession | None = None
    issuer: str = ""
    confinement: ProgramConfinement | None = None
