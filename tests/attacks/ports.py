"""Addresses at which an attack listens on the port of a hub, and how the kernel refuses a taken port."""

from __future__ import annotations

HOST, ANY_ADDRESS = "127.0.0.1", "0.0.0.0"
"""The address of the hubs of the tests, and that of all addresses, which includes it."""

OTHER_ADDRESS = "127.0.0.2"
"""An address at which the hub does not listen; `::1` is another, to which the name `localhost` may lead a browser."""

IN_USE = "Address already in use"
"""How the kernel refuses a port at which another program listens."""
