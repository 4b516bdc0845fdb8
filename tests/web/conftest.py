"""The zoo of servers, and hubs that inspect others, for these tests."""

from __future__ import annotations

import pytest

from patchbay.web.application import Application
from tests.hubs import Hub
from tests.sample_servers import zoo
from tests.web.inspecting import far, listener, looker

__all__ = ["far", "listener", "looker", "zoo"]


@pytest.fixture
def app(hub: Hub) -> Application:
    """The app that the fixture `client` of pytest-flask speaks to."""
    return hub.app
