"""A provider in the hands of the test, and a hub whose people sign in with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.providers.false_provider import FalseProvider, running_provider, settings_for
from tests.hubs import Hub


@pytest.fixture
def provider() -> Iterator[FalseProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def hub(provider: FalseProvider, tmp_path: Path) -> Iterator[Hub]:
    echo = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'
    hub = Hub(tmp_path, {"echo.py": echo}, **settings_for(provider))
    yield hub
    hub.close()
