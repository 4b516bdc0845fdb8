"""A folder that a tool may not change is a problem until it is allowed, or the tool works (issue 47 item 10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activity.denied_folders import DeniedFolder, find_denied_folder
from tests.hubs import Hub

KEEPER = '''"""Keeps texts."""

from patchbay import ToolFailed


def save(folder: str = "") -> str:
    """Save a text, or fail as a tool does that may not change a folder."""
    if folder:
        raise ToolFailed(f'To allow this folder, the operator adds "writes": ["{folder}"] to the configuration.')
    return "saved"


def count() -> str:
    """Do something else."""
    return "1"
'''


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, {"keeper.py": KEEPER, "other.py": KEEPER}, isolation="inline")
    yield hub
    hub.close()


def find(hub: Hub, *allowed: str) -> DeniedFolder | None:
    hub.activity.flush()
    return find_denied_folder(hub.catalogue.store.journal, "keeper", {"writes": allowed})


def test_a_denial_is_past_when_the_same_tool_works_later(hub: Hub) -> None:
    hub.call("keeper", "save", {"folder": "~/orders"})
    found = find(hub)
    assert found is not None and (found.folder, found.tool) == ("~/orders", "save")
    hub.call("keeper", "count")
    hub.call("other", "save")
    assert find(hub) == found, "the success of another tool, or of another server, shows nothing"
    hub.call("keeper", "save")
    assert find(hub) is None
    hub.call("keeper", "save", {"folder": "~/bills"})
    denied = find(hub)
    assert denied is not None and denied.folder == "~/bills"


def test_a_success_before_the_denial_does_not_disprove_it(hub: Hub) -> None:
    hub.call("keeper", "save")
    hub.call("keeper", "save", {"folder": "~/orders"})
    assert find(hub) is not None


@pytest.mark.parametrize("allowed", ["~/orders", "~", str(Path.home() / "orders"), str(Path.home())])
def test_a_denial_is_past_when_the_folder_or_one_above_it_is_allowed(hub: Hub, allowed: str) -> None:
    hub.call("keeper", "save", {"folder": "~/orders"})
    assert find(hub, allowed) is None


@pytest.mark.parametrize("allowed", ["~/order", "~/orders/old", "/orders"])
def test_another_folder_does_not_allow_it(hub: Hub, allowed: str) -> None:
    hub.call("keeper", "save", {"folder": "~/orders"})
    assert find(hub, allowed) is not None


def test_an_older_denial_of_another_folder_is_found_behind_an_allowed_one(hub: Hub) -> None:
    hub.call("keeper", "save", {"folder": "~/bills"})
    hub.call("keeper", "save", {"folder": "~/orders"})
    found = find(hub, "~/orders")
    assert found is not None and found.folder == "~/bills"
