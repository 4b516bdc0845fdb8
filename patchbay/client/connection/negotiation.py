"""Agree with a server on a protocol revision.

`modern` sends `server/discover`, `legacy` sends `initialize`, `auto` sends `server/discover` first and `initialize` to
every server that does not answer as a modern one. Some servers do not answer methods that they do not know, and some
need a minute to start: after DISCOVER_SECONDS `auto` sends `initialize` too, over the same connection, and waits for
its answer as long as the start may take.

Source: MCP specification 2026-07-28, basic/versioning.
"""

from __future__ import annotations

import logging

import anyio
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult, InitializeResult
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from patchbay.client.addresses.targets import Era
from patchbay.client.connection.plan import AgreedSession, complete_handshake

log = logging.getLogger(__name__)

DISCOVER_SECONDS = 5.0
"""Seconds in which a server has to answer `server/discover`, before `initialize` is sent."""


async def negotiate(session: ClientSession, era: Era, ended: anyio.Event, adopted: AgreedSession | None = None) -> bool:
    """Agree with a server, and return whether the revision is modern. Raises MCPError when both sides share no
    revision.

    `ended` is set when the connection has ended, so that a dead server is not taken for an old one. With `adopted`, the
    server has answered already and nothing is sent.
    """
    if adopted is not None:
        kind = DiscoverResult if adopted.modern else InitializeResult
        session.adopt(kind.model_validate(complete_handshake(adopted.result)))
        return adopted.modern
    if era == "modern":
        await session.discover()
        return True
    if era == "auto" and await _try_discover(session, ended):
        return True
    try:
        await session.initialize()
    except MCPError as problem:
        # A slow program may have processed server/discover after our timeout, and be modern since then.
        if era == "legacy" or problem.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
        return True
    return False


async def _try_discover(session: ClientSession, ended: anyio.Event) -> bool:
    try:
        with anyio.move_on_after(DISCOVER_SECONDS) as limit:
            await session.discover()
        if limit.cancelled_caught:
            log.debug("no answer to server/discover within %g s", DISCOVER_SECONDS)
            return False
    except MCPError as problem:
        if ended.is_set() or _is_modern_only(problem):
            raise
        return False
    except (RuntimeError, ValidationError) as problem:
        log.debug("took the answer to server/discover for that of an older server: %s", problem)
        return False
    return True


def _is_modern_only(problem: MCPError) -> bool:
    """Whether the server's error says that it supports only revisions without a handshake."""
    data = problem.error.data
    named = data.get("supported") if isinstance(data, dict) else None
    if problem.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(named, list):
        return False
    return not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in named)
