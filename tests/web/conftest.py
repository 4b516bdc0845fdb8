"""A hub with a small town for each module of tests, the zoo of servers, and hubs that inspect others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.web.application import Application
from tests.hubs import Hub
from tests.sample_servers import zoo
from tests.web.browsing import town_hub
from tests.web.inspecting import far, listener, looker

__all__ = ["far", "listener", "looker", "zoo"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = town_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture
def app(hub: Hub) -> Application:
    """The app that the fixture `client` of pytest-flask speaks to."""
    return hub.app
