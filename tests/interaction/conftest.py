"""One running hub for all conversations, and the clients that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interaction.peers import PEERS, Peer
from tests.interaction.programs import Hub, running_hub


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub as users start it, with the example of `servers/` dropped in; it has to end cleanly on SIGTERM."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as hub:
        yield hub


@pytest.fixture(scope="package", params=list(PEERS))
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Each client in turn."""
    with ExitStack() as stack:
        yield stack.enter_context(PEERS[request.param](tmp_path_factory.mktemp("home")))
