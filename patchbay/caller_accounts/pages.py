"""Which clients open the page where their caller connects an account, and how long a call waits for that.

Source: MCP specification 2025-11-25 and 2026-07-28, client/elicitation (URL mode).
"""

from __future__ import annotations

from collections.abc import Mapping

from patchbay.activation import Call

CONNECT_SECONDS = 120.0
"""Seconds that a call waits until its caller has connected an account; most clients keep a call open that long."""

ELICITATION = "elicitation"
"""The capability of clients that show questions."""


def can_open_pages(call: Call) -> bool:
    """Whether the client of a call shows URLs to its user. A tool that another tool calls may not ask."""
    declared = call.capabilities.get(ELICITATION)
    return len(call.chain) <= 1 and isinstance(declared, Mapping) and isinstance(declared.get("url"), Mapping)
