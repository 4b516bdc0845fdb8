"""One hub with a small town for each module of tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hubs import Hub
from tests.web.browsing import town_hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = town_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()
