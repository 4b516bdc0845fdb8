"""The hubs of the official suite; a module with the marker `alone` runs alone, and before other work of the machine.

The legs `2026-07-28` and `bare` have scenarios that wait 1.5 seconds for a message, and the client suite starts up to
48 clients at once: their modules have the marker. The other legs run beside other tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import pytest

from tests.checkout import ROOT
from tests.conformance.mounting import MOUNT
from tests.conformance.suite import Outcomes, run
from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.programs import Hub, running_hub
from tests.locks import holding

PRIORITY = -10
"""The nice value of these tests, and of the hubs and suites that they start, where this user may choose it."""


@pytest.fixture(scope="module", autouse=True)
def _alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the tests of a module with the marker `alone` while no other worker runs a test."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not request.node.get_closest_marker("alone"):
        yield
        return
    with holding(tmp_path_factory.getbasetemp().parent, alone=True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _priority(_alone: None, request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.node.get_closest_marker("alone"):
        yield
        return
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    yield
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that was started as users start it, for all runs of a module: it is not restarted between them."""
    with running_hub(tmp_path_factory.mktemp("conformance") / "hub") as hub:
        yield hub


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub whose `everything` runs in processes of its own: the same definition and configuration, dropped in."""
    folder = tmp_path_factory.mktemp("isolated")
    boot = ROOT / "reference_templates"
    cid = json.loads((boot / "mcps.json").read_text("utf-8"))["everything"]["config_cid"]
    config = json.loads((boot / "cids" / cid).read_text("utf-8")) | {"isolation": "process"}
    (folder / "everything.mcp.json").write_text(json.dumps(config), "utf-8")
    parts = (boot / "servers" / "definitions" / "everything.py", folder / "everything.mcp.json")
    with running_hub(folder / "hub", parts) as hub:
        yield hub


@pytest.fixture(scope="module")
def mounted(hub: Hub, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub in front of `hub`; it speaks to the one behind in one era."""
    folder = tmp_path_factory.mktemp(request.param)
    mount = {"kind": "upstream", "address": hub.endpoint("everything"), "era": request.param}
    (folder / f"{MOUNT}.json").write_text(json.dumps(mount), "utf-8")
    with running_hub(folder / "hub", [folder / f"{MOUNT}.json"]) as front:
        until_tools_are_listed(front.endpoint(MOUNT))
        yield front


@pytest.fixture(scope="module")
def direct(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcomes]:
    """The outcomes of a leg without a mount; each leg runs once for a module."""

    @cache
    def leg(revision: str) -> Outcomes:
        folder = tmp_path_factory.mktemp("direct")
        return run(hub.endpoint("everything"), revision, folder / "suite", folder)

    return leg
