"""A confined program of a mount: what it is told when it is refused something, and how the operator allows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.processes.confinement.programs import active_program_protections
from patchbay.processes.confinement.protections import ALL, LANDLOCK, NAMESPACES
from tests.attacks import hostile_program
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, read
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

PROGRAM = Path(hostile_program.__file__ or "")
UNCONFINED = "the program is not confined: it has all rights of the hub's user"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that confines its programs, with a mounted one."""
    mount = {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} {PROGRAM}"}
    files = {"notes.json": json.dumps(mount)}
    own: dict[str, Any] = {"protections": ALL, "store": "sqlite", "confine": "default"}
    found = Hub(tmp_path_factory.mktemp("confining"), files, **own).log_in()
    until(lambda: found.call("notes", "processes", {}).text.isdecimal())
    yield found
    found.close()


def test_a_denied_folder_of_a_program_is_explained_offered_and_allowed(hub: Hub, tmp_path: Path) -> None:
    """The failure says what the program may do and the line that allows it; after the button the same call works.

    Where the machine can confine nothing, nothing is denied, and the page says so.
    """
    wanted = tmp_path / "a.txt"
    failed = hub.call("notes", "write", {"path": str(wanted)})
    if not active_program_protections(ALL):
        assert wanted.exists() and UNCONFINED in Reader(read(hub, "/servers/notes/settings")).text
        return
    assert failed.result["isError"] and not wanted.exists()
    said = "".join(block["text"] for block in failed.result["content"])
    assert f'"writes": ["{tmp_path}"]' in said and "servers/notes.json" in said
    assert "It reads neither the files of the hub nor private places of the user" in said
    hub.activity.flush()
    page = read(hub, "/servers/notes/settings")
    assert f"was not allowed to change {tmp_path}" in Reader(page).text
    fields = {"csrf": csrf(hub, "/servers/notes/settings"), "do": "writes", "folder": str(tmp_path)}
    assert hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER).status_code == 303
    assert json.loads((hub.servers / "notes.json").read_text())["writes"] == [str(tmp_path)]
    until(lambda: not hub.call("notes", "write", {"path": str(wanted)}).result.get("isError"))
    assert wanted.read_text() == "written by a program"


def test_a_denied_file_of_a_program_is_explained_offered_for_reading_and_allowed(hub: Hub, tmp_path: Path) -> None:
    """The line that allows it is `reads`: the button to change the folder is not the first one."""
    file = tmp_path / "a.txt"
    file.write_text("of another program")
    failed = hub.call("notes", "read", {"path": str(file)})
    if NAMESPACES not in active_program_protections(ALL):
        assert not failed.result.get("isError")  # without namespaces there is one /tmp for all
        return
    said = "".join(block["text"] for block in failed.result["content"])
    assert failed.result["isError"] and f'"reads": ["{tmp_path}"]' in said
    hub.activity.flush()
    page = read(hub, "/servers/notes/settings")
    assert f"was not allowed to read {tmp_path}" in Reader(page).text
    assert page.index('value="reads"') < page.index('value="writes"')
    fields = {"csrf": csrf(hub, "/servers/notes/settings"), "do": "reads", "folder": str(file)}
    assert hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER).status_code == 303
    assert json.loads((hub.servers / "notes.json").read_text())["reads"] == [str(file)]
    until(lambda: not hub.call("notes", "read", {"path": str(file)}).result.get("isError"))
    assert hub.call("notes", "write", {"path": str(file)}).result["isError"]
    fields |= {"do": "writes", "folder": str(tmp_path)}
    assert hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER).status_code == 303
    until(lambda: not hub.call("notes", "write", {"path": str(file)}).result.get("isError"), "the line for changes")
    hub.activity.flush()
    assert "was not allowed to read" not in read(hub, "/servers/notes/settings")


def test_a_program_of_a_file_with_several_servers_is_allowed_a_folder_in_its_entry_there(
    hub: Hub, tmp_path: Path
) -> None:
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(PROGRAM)]}
    file, wanted = hub.servers / "desktop.json", tmp_path / "a.txt"
    file.write_text(json.dumps({"mcpServers": {"box": entry}}))
    until(lambda: any(one.name == "box" and one.tools for one in hub.catalogue.all()), "its tools")
    if active_program_protections(ALL):
        failed = hub.call("box", "write", {"path": str(wanted)})
        said = "".join(block["text"] for block in failed.result["content"])
        assert f'adds "writes": ["{tmp_path}"] to the entry of box in the file servers/desktop.json.' in said
        assert "servers/box" not in said
    fields = {"csrf": csrf(hub, "/servers/box/settings"), "do": "writes", "folder": str(tmp_path)}
    answer = hub.client.post("/servers/box/settings", data=fields, headers=BROWSER)
    assert answer.status_code == 403
    assert f'add "writes": ["{tmp_path}"] to its entry there' in Reader(answer.text).text
    file.write_text(json.dumps({"mcpServers": {"box": entry | {"writes": [str(tmp_path)]}}}))
    until(lambda: not hub.call("box", "write", {"path": str(wanted)}).result.get("isError"))
    assert wanted.read_text() == "written by a program"
    file.unlink()


def test_a_program_starts_in_its_own_folder_or_in_that_of_its_configuration(hub: Hub, tmp_path: Path) -> None:
    """Issue 49, item 2: a program wrote its files into the folder in which the hub was started."""
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(PROGRAM)]}
    for name, fields in (("here", {}), ("there", {"cwd": str(tmp_path)})):
        (hub.servers / f"{name}.json").write_text(json.dumps(entry | fields))
    until(lambda: {"here", "there"} <= {one.name for one in hub.catalogue.all() if one.tools}, "their tools")
    here, there = (Path(json.loads(hub.call(name, "environment", {}).text)["cwd"]) for name in ("here", "there"))
    is_confined = bool(active_program_protections(ALL))
    assert (here.parent == hub.settings.data.absolute() / "programs") == is_confined
    assert there == tmp_path
    hub.call("here", "write", {"path": "made"})
    assert (here / "made").exists() and (Path("made").exists() != is_confined)
    for name in ("here", "there"):
        (hub.servers / f"{name}.json").unlink()


def test_the_page_lists_what_holds_on_this_machine(hub: Hub) -> None:
    text = Reader(read(hub, "/servers/notes/settings")).text
    active = active_program_protections(ALL)
    assert ("reads no file of the hub and no private place of the user" in text) == bool(active)
    assert (UNCONFINED in text) == (not active)
    assert ("not protected here; needs namespaces for users" in text) == (active == (LANDLOCK,))
    assert ("sees no process but its own" in text) == (NAMESPACES in active)
    assert ("cannot listen on the hub's port" in text) or LANDLOCK not in active


@pytest.mark.parametrize("field", [{"reads": ["~/x"]}, {"home": "user"}, {"confine": "off"}, {"network": False}])
def test_a_url_has_no_permissions_of_a_program(hub: Hub, field: dict[str, object]) -> None:
    mount = {"kind": "upstream", "address": "https://mcp.example/mcp", **field}
    (hub.servers / "far.json").write_text(json.dumps(mount))
    until(lambda: "the hub starts nothing here" in hub.client.get("/servers/far", headers=BROWSER).text)
    (hub.servers / "far.json").unlink()


def test_a_program_that_is_not_confined_says_so_on_each_of_its_pages(hub: Hub) -> None:
    mount = {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} {PROGRAM}", "confine": "off"}
    (hub.servers / "free.json").write_text(json.dumps(mount))
    said = 'The program is not confined: it has all rights of the hub\'s user (its configuration has "confine": "off").'
    for tab in ("", "/source", "/past", "/settings"):
        until(lambda tab=tab: said in _text_of(hub, f"/servers/free{tab}"))  # type: ignore[misc]
    (hub.servers / "free.json").unlink()


def _text_of(hub: Hub, path: str) -> str:
    return Reader(hub.client.get(path, headers=BROWSER).text).text


def _pages_of(hub: Hub, name: str) -> str:
    paths = (f"/servers/{name}", f"/servers/{name}/settings")
    return "".join(_text_of(hub, path) for path in paths)


@pytest.mark.parametrize("wanted", [(), (LANDLOCK,)])
def test_the_page_says_what_does_not_hold_where_a_protection_is_missing(
    wanted: tuple[str, ...], tmp_path: Path
) -> None:
    mount = {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} {PROGRAM}"}
    own: dict[str, Any] = {"protections": wanted, "store": "sqlite", "confine": "default"}
    hub = Hub(tmp_path, {"notes.json": json.dumps(mount)}, **own).log_in()
    try:
        until(lambda: hub.call("notes", "processes", {}).text.isdecimal())
        said = "not protected here; needs namespaces for users" if active_program_protections(wanted) else UNCONFINED
        assert said in Reader(read(hub, "/servers/notes/settings")).text
    finally:
        hub.close()


def test_writes_into_the_folders_of_the_hub_are_a_problem_of_the_server(hub: Hub) -> None:
    address = f"mcp+stdio:{sys.executable} {PROGRAM}"
    mount = {"kind": "upstream", "address": address, "writes": [str(hub.servers)]}
    (hub.servers / "greedy.json").write_text(json.dumps(mount))
    said = f"{hub.servers} is not opened: no mounted program may use the files of the hub itself"
    if not active_program_protections(ALL):
        said = UNCONFINED  # what is not confined needs no permission
    until(lambda: said in _pages_of(hub, "greedy"))
    (hub.servers / "greedy.json").unlink()


def test_the_button_opens_no_folder_of_the_hub(hub: Hub) -> None:
    token = csrf(hub, "/servers/notes/settings")
    for do, what in (("writes", "folder"), ("reads", "folder or file")):
        for folder in (hub.servers, hub.settings.data):
            fields = {"csrf": token, "do": do, "folder": str(folder)}
            answer = hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER)
            assert answer.status_code == 400 and f"is a {what} of the hub itself" in answer.text
