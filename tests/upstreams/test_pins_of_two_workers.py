"""Two workers of one hub agree on pins: each has its own connection to the mounted server and one store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from patchbay.catalogue.catalogue import Catalogue
from patchbay.pins.approval import approve
from patchbay.pins.records import load_pins
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores import open_store
from patchbay.topics import NAMES_CHANGED, PINS
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.standing import MountContext
from tests.upstreams.changing import mount, tool
from tests.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Store, Catalogue, Catalogue]]:
    """A store, and two catalogues on it that mount the same program, each with a process of its own."""
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "far.json").write_text(mount("hold", [tool(0)]))
    settings = Settings(data=tmp_path / "data", servers=servers)
    with_store = [open_store("sqlite", settings.data) for _ in range(2)]
    catalogues = []
    for number, store in enumerate(with_store):
        announce = partial(store.bus.publish, NAMES_CHANGED)
        context = MountContext(store, {}, f"hub-{number}", "1", announce, "tell")
        catalogues.append(Catalogue(store, settings, connections=StandingConnections(context)))
    for catalogue in catalogues:
        catalogue.start()
        catalogue.refresh()
    yield with_store[0], catalogues[0], catalogues[1]
    for catalogue in catalogues:
        catalogue.close()
    for store in with_store:
        store.close()


def tools_of(catalogue: Catalogue) -> set[str]:
    return set(catalogue.find("far").tools)


def test_an_approval_by_one_worker_is_in_force_in_the_other(workers: tuple[Store, Catalogue, Catalogue]) -> None:
    """N4, issue 16: two workers agree at once; no worker serves what the other one holds."""
    store, first, second = workers

    def both_serve(*names: str) -> None:
        until(lambda: tools_of(first) == {*names} == tools_of(second), f"{names} in both workers")

    both_serve("control", "t0")
    (first.settings.servers / "far.json").write_text(mount("hold", [tool(0, 1), tool(1)]))
    both_serve("control")
    document = load_pins(store, "far").document
    assert document is not None and set(document.waiting) == {("tool", "t0"), ("tool", "t1")}
    approve(store, "far", "operator", keys=[("tool", "t0")])
    both_serve("control", "t0")
    approve(second.store, "far", "operator")
    both_serve("control", "t0", "t1")
    whys = [move.why for move in store.names.past(PINS + "far")]
    assert len([why for why in whys if why.startswith("changed: ")]) == 1, "one worker recorded the change"
