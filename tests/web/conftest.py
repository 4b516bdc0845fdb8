"""The zoo of servers, and hubs that inspect others, for these tests."""

from __future__ import annotations

from tests.web.inspecting import far, listener, looker
from tests.zoo import zoo

__all__ = ["far", "listener", "looker", "zoo"]
