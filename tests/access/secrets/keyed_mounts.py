"""Mounts that need a secret, for the tests of secrets."""

from __future__ import annotations

import json
import shlex
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from patchbay.access.secrets.records import Secrets
from tests.hubs import Hub
from tests.waiting import until

KEYED = Path(__file__).with_name("keyed_server.py")
PROGRAM = f"mcp+stdio:{shlex.quote(sys.executable)} {shlex.quote(str(KEYED))}"


def digest_of(value: str) -> str:
    """The hash that the server shows of its secret."""
    return sha256(value.encode()).hexdigest()


def secrets_of(hub: Hub) -> Secrets:
    """The secrets of a hub in this process."""
    found = hub.app.parts.dispatcher.services.secrets
    assert isinstance(found, Secrets)
    return found


def program_mount(value: str = "${TOKEN}", **fields: Any) -> str:
    """The definition of a mount of the program that needs TOKEN."""
    own = {"kind": "upstream", "address": PROGRAM, "environment": {"TOKEN": value}, "confine": "off"}
    return json.dumps(own | fields)


def health_of(hub: Hub, name: str) -> Any:
    """The health of a mount."""
    return hub.catalogue.find(name).standing.health


def wait_until_up(hub: Hub, name: str) -> None:
    """Wait until a mount answers."""
    until(lambda: health_of(hub, name).state == "up", lambda: health_of(hub, name).sentence)
