"""Health: whether the hub works, and since when."""

import json
import time
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

import patchbay
from patchbay import PatchbayError


class Status(TypedDict):
    """How the hub is: for how long the process that answers has run, and its clock in UTC."""

    type: Literal["status"]
    status: Literal["healthy", "unhealthy"]
    uptime_seconds: int
    timestamp: str


class Schema(TypedDict):
    """What this server offers: each tool as MCP lists it."""

    type: Literal["schema"]
    namespace: str
    description: str
    methods: list[dict[str, Any]]


def check(context) -> Status:
    """Tell whether the hub is healthy: it answers, and its store does too."""
    return {
        "type": "status",
        "status": "healthy" if _store_answers(context) else "unhealthy",
        "uptime_seconds": int(time.monotonic() - patchbay.STARTED),
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def schema(context) -> Schema:
    """Describe the methods of this server, with the schemas of what they take and answer."""
    found = json.loads(context.read(f"server://{context.server}")["text"])
    return {
        "type": "schema",
        "namespace": found["name"],
        "description": found.get("description", ""),
        "methods": found["tools"],
    }


def _store_answers(context) -> bool:
    try:
        context.state.get("probe")
    except PatchbayError:
        return False
    return True
