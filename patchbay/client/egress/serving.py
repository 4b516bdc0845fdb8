"""Starts and ends the proxy of a program, on an event loop that all programs of this process share."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from patchbay.client.connection.event_loop import get_egress_loop
from patchbay.client.egress.proxy import EgressProxy
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.processes.egress.egress_plans import EgressPlan


@dataclass(frozen=True, slots=True)
class Egress:
    """What a confined program with a list of hosts has in place of a network."""

    confinement: ProgramConfinement
    plan: EgressPlan


@asynccontextmanager
async def serve_egress(egress: Egress | None) -> AsyncIterator[socket.socket | None]:
    """Serve the proxy of a program while the block runs; None serves nothing.

    Gives the socket that the start of the program gets, which the caller may close once it has started.
    """
    listed = egress.confinement.egress if egress is not None else None
    if egress is None or listed is None:
        yield None
        return
    ours, theirs = socket.socketpair()
    proxy = EgressProxy(egress.confinement, listed, egress.plan.targets)
    running = get_egress_loop().start(proxy.serve(ours))
    try:
        yield theirs
    finally:
        theirs.close()
        running.cancel()
