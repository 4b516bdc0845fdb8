"""A file that is being written into the servers folder: the hub never runs half of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = pytest.mark.process

HALF = '''
from pathlib import Path


def erase(folder: str) -> str:
    """Erase a folder."""
    message = "half"
'''
REST = '''    message = "whole"
    return message


def check() -> str:
    """Say that the file is whole."""
    return "whole"
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("half")


@pytest.fixture(scope="module")
def hub(place: Path) -> Iterator[Hub]:
    (place / "servers").mkdir()
    with running(place) as one:
        yield one


def served(hub: Hub, name: str) -> bool:
    """Whether a server of this name exists, working or broken."""
    return hub.get(f"/servers/{name}")[0] == 200


def served_tools(hub: Hub, name: str) -> list[int]:
    """The number of tools of a server, in a list; an empty list when the worker that answers does not serve it yet."""
    return [one["tools"] for one in orjson.loads(hub.get("/servers.json")[1]) if one["name"] == name]


def wait_for_scans(hub: Hub, folder: Path, name: str) -> None:
    """Wait until a file that was saved last is served: by then the folder was scanned several times."""
    (folder / f"{name}.py").write_text("def later() -> str:\n    return 'later'\n")
    until(lambda: served(hub, name), f"{name} is served")


def test_a_file_is_not_served_while_a_program_has_it_open_for_writing(hub: Hub, place: Path) -> None:
    folder = place / "servers"
    with (folder / "upload.py").open("w") as file:
        file.write(HALF)
        file.flush()
        for name in ("one", "two", "three"):
            wait_for_scans(hub, folder, name)
            assert not served(hub, "upload")
        file.write(REST)
    assert until(lambda: served_tools(hub, "upload"), "the whole file is served") == [2]


def test_a_file_that_grows_is_not_served_before_it_rests(hub: Hub, place: Path) -> None:
    folder, stop = place / "servers", threading.Event()

    def grow() -> None:
        while not stop.wait(0.05):
            with (folder / "growing.py").open("a") as file:
                file.write("# more\n")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        until((folder / "growing.py").exists, "the file is there")
        for name in ("four", "five"):
            wait_for_scans(hub, folder, name)
            assert not served(hub, "growing")
    finally:
        stop.set()
        writer.join()
    until(lambda: served(hub, "growing"), "the file that rests is served")


def test_the_files_of_editors_are_never_served(hub: Hub, place: Path) -> None:
    folder = place / "servers"
    names = [
        ".secret.py.swp",
        ".#secret.py",
        "#secret.py",
        "secret~.py",
        "secret.tmp.py",
        "~secret.py",
        "secret.bak.sh",
    ]
    for name in names:
        (folder / name).write_text(HALF)
    wait_for_scans(hub, folder, "six")
    listed = orjson.loads(hub.get("/servers.json")[1])
    assert [one["name"] for one in listed if "secret" in one["name"]] == []
    assert not [line for line in hub.lines if "secret" in line]
