"""The zoo of tests/protocol, for tests of the ways in; and hubs that look at others."""

from __future__ import annotations

from tests.protocol.conftest import zoo
from tests.transports.inspecting import far, listener, looker

__all__ = ["far", "listener", "looker", "zoo"]
