"""The zoo of servers, and hubs that inspect others, for these tests."""

from __future__ import annotations

import pytest
from flask import Flask

from tests.hubs import Hub
from tests.sample_servers import zoo
from tests.web.inspecting import far, listener, looker

__all__ = ["far", "listener", "looker", "zoo"]


@pytest.fixture
def app(hub: Hub) -> Flask:
    """The app that the fixture `client` of pytest-flask speaks to."""
    return hub.app
