"""One server that wants OAuth, and one shared hub that mounts it, for all tests of credentials by caller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.access.upstreams.guarded import Caller, Guarded, caller_of, running_guarded
from tests.hubs import Hub
from tests.signing_in import shared_hub, signed_in


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with running_guarded(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory, guarded: Guarded) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files={"far.json": guarded.mount()})
    yield hub
    hub.close()


@pytest.fixture
def ann(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, "ann"), "far")


@pytest.fixture
def ben(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, "ben"), "far")
