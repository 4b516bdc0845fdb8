"""A tool that may not change a folder says so; the operator allows it on the page of the server (34.20)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.cli.doctor.servers import check_refusals
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.protections import ALL
from patchbay.settings import Settings
from tests.hubs import Hub
from tests.web.browsing import BROWSER, read
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

SAVING = '''"""Keeps texts."""

from pathlib import Path

def save(path: str) -> str:
    """Save a text."""
    Path(path).write_text("a text")
    return "saved"
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the protections of a served one, and a store in a file."""
    files = {"keeper.py": SAVING, "script.sh": '#!/bin/sh\n# Save a text.\necho "a text" > "$1"\n'}
    hosts = WorkerPool(protections=ALL)
    own = {"isolation": "process", "protections": ALL, "store": "sqlite"}
    found = Hub(tmp_path_factory.mktemp("allowing"), files, hosts, **own).log_in()
    yield found
    found.close()
    hosts.close()


def allow(hub: Hub, server: str, folder: str, status: int = 303) -> str:
    fields = {"csrf": csrf(hub, f"/servers/{server}/settings"), "do": "writes", "folder": folder}
    answer = hub.client.post(f"/servers/{server}/settings", data=fields, headers=BROWSER)
    assert answer.status_code == status, answer.text[:2000]
    return answer.headers["Location"] if status == 303 else answer.text


def list_warnings(hub: Hub, name: str) -> list[str]:
    """What `patchbay doctor` says about the folders of one server."""
    return [
        found.sentence
        for found in check_refusals(
            hub.settings, None, [{"name": name, "kind": "python", "origin": f"servers/{name}.py"}]
        )
    ]


@pytest.mark.parametrize(("server", "tool", "argument"), [("keeper", "save", "path"), ("script", "script", "args")])
def test_a_denied_folder_is_explained_offered_and_allowed(
    hub: Hub, tmp_path: Path, server: str, tool: str, argument: str
) -> None:
    """34.20: the failure, the page and `doctor` name the folder; after the button the same call works.

    A machine without Landlock refuses nothing, and the page says so.
    """
    wanted = tmp_path / "a.txt"
    failed = hub.call(server, tool, {argument: str(wanted)})
    if not landlock.version():
        assert wanted.read_text().strip() == "a text" and list_warnings(hub, server) == []
        assert (
            "No, files: not protected here; needs Linux with 5.13"
            in Reader(read(hub, f"/servers/{server}/settings")).text
        )
        return
    assert failed.result["isError"] and "Permission denied" in failed.text
    assert f'"writes": ["{tmp_path}"]' in failed.text and f"/servers/{server}/settings" in failed.text
    hub.activity.flush()
    page = read(hub, f"/servers/{server}/settings")
    assert f'value="{tmp_path}"' in page and f"was not allowed to change {tmp_path}" in Reader(page).text
    assert [str(tmp_path) in sentence for sentence in list_warnings(hub, server)] == [True]
    location = allow(hub, server, str(tmp_path))
    assert "may change the folder" in Reader(read(hub, location)).text
    assert json.loads((hub.servers / f"{server}.mcp.json").read_text()) == {
        "auto_discover": True,
        "writes": [str(tmp_path)],
    }
    worked = hub.call(server, tool, {argument: str(wanted)})
    assert not worked.result.get("isError"), worked.text
    assert wanted.read_text().strip() == "a text"
    assert "was not allowed" not in read(hub, f"/servers/{server}/settings")
    assert list_warnings(hub, server) == []


@pytest.mark.parametrize("folder", ["", "notes", "/no/such/folder", "/etc/passwd"])
def test_only_an_existing_folder_is_allowed(hub: Hub, folder: str) -> None:
    """34.20: what cannot be read changes nothing."""
    before = {file.name: file.read_bytes() for file in hub.servers.iterdir()}
    assert "folder" in Reader(allow(hub, "keeper", folder, 400)).text
    assert {file.name: file.read_bytes() for file in hub.servers.iterdir()} == before


def test_a_hub_in_memory_has_no_records_for_doctor(tmp_path: Path) -> None:
    settings = Settings(store="memory", data=tmp_path)
    assert list(check_refusals(settings, None, [{"name": "keeper"}])) == []
