"""The folder of a server's own files, as its configuration names it: where it may be, and that its code can use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from patchbay.catalogue.servers.server import Server
from patchbay.processes.confinement.protections import ALL
from tests.hubs import Hub
from tests.waiting import until

SOURCE = """
def keep(context, text: str) -> str:
    context.folder.mkdir(parents=True, exist_ok=True)
    (context.folder / "kept").write_text(text)
    return str(context.folder)
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    hub = Hub(folder, {"notes.py": SOURCE}, protections=ALL)
    yield hub
    hub.close()


def configure(hub: Hub, folder: str) -> None:
    """Write the configuration of the server `notes`; its watcher reads it soon."""
    config = {"auto_discover": True, "folder": folder}
    (hub.servers / "notes.mcp.json").write_text(orjson.dumps(config).decode())


def notes(hub: Hub) -> Server:
    found: Server = next(one for one in hub.catalogue.all() if one.name == "notes")
    return found


def test_code_in_its_own_process_uses_the_configured_folder(hub: Hub, tmp_path: Path) -> None:
    wanted = tmp_path / "notes"
    configure(hub, str(wanted))
    until(lambda: notes(hub).config.get("folder") == str(wanted))
    assert hub.call("notes", "keep", {"text": "x"}).text == str(wanted)
    assert (wanted / "kept").read_text() == "x"


@pytest.mark.parametrize("place", ["data", "data/notes", "", "servers", "/", "link"])
def test_a_folder_that_overlaps_one_of_the_hub_is_refused(hub: Hub, tmp_path: Path, place: str) -> None:
    """The code of a server may change all of its folder, so it must not be a folder of the hub."""
    root = hub.servers.parent
    (tmp_path / "link").symlink_to(root / "data")
    wanted = str(tmp_path / "link") if place == "link" else str(root / place)
    configure(hub, wanted)
    sentence = f"expected a folder apart from those of the hub; {wanted} overlaps"
    until(lambda: sentence in str(notes(hub).broken), lambda: notes(hub).broken)


@pytest.mark.parametrize("folder", ["notes", "", "~other/notes", "../notes"])
def test_a_relative_folder_is_refused(hub: Hub, folder: str) -> None:
    configure(hub, folder)
    wrong = f"this is {orjson.dumps(folder).decode()}"
    until(lambda: wrong in str(notes(hub).broken), lambda: notes(hub).broken)
