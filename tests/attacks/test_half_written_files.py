"""A file that is being written into the servers folder: the hub never runs half of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from patchbay.catalogue.watching.following import SECOND_SCAN_SECONDS
from tests.serving.running import Hub, running
from tests.waiting import BOUND, REQUESTS_FOR_EVERY_WORKER, until_every_worker

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
    """Whether a server of this name exists in the worker that answers, working or broken."""
    return hub.get(f"/servers/{name}")[0] == 200


def served_anywhere(hub: Hub, name: str) -> bool:
    """Whether a server of this name exists in any worker."""
    return any(served(hub, name) for _ in range(REQUESTS_FOR_EVERY_WORKER))


def wait_until_served(hub: Hub, name: str) -> None:
    """Wait until a server of this name exists in every worker."""
    until_every_worker(lambda: served(hub, name), f"{name} is served")


def wait_for_scans(hub: Hub, folder: Path, name: str) -> None:
    """Wait until a file that was saved last is served: by then the folder was scanned several times."""
    (folder / f"{name}.py").write_text("def later() -> str:\n    return 'later'\n")
    wait_until_served(hub, name)


def longest_rest(writes: list[float]) -> float:
    """Return the most seconds between two writes, or since the last one."""
    return max(later - earlier for earlier, later in pairwise([*writes, time.monotonic()]))


def test_a_file_is_not_served_while_a_program_has_it_open_for_writing(hub: Hub, place: Path) -> None:
    folder = place / "servers"
    with (folder / "upload.py").open("w") as file:
        file.write(HALF)
        file.flush()
        for name in ("one", "two", "three"):
            wait_for_scans(hub, folder, name)
            assert not served_anywhere(hub, "upload")
        file.write(REST)
    wait_until_served(hub, "upload")
    listed = orjson.loads(hub.get("/servers.json")[1])
    [count] = [one["tools"] for one in listed if one["name"] == "upload"]
    assert count == 2


def test_a_file_that_grows_is_not_served_before_it_rests(hub: Hub, place: Path) -> None:
    """A file may be served after two scans that agree; on a busy machine the writer may pause for as long as that."""
    folder, stop, begun = place / "servers", threading.Event(), threading.Event()
    writes: list[float] = []

    def grow() -> None:
        while not stop.wait(SECOND_SCAN_SECONDS / 10):
            with (folder / "growing.py").open("a") as file:
                file.write("# more\n")
            writes.append(time.monotonic())
            begun.set()

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert begun.wait(BOUND), "the file is there"
        for name in ("four", "five"):
            wait_for_scans(hub, folder, name)
            assert not served_anywhere(hub, "growing") or longest_rest(writes) >= SECOND_SCAN_SECONDS
    finally:
        stop.set()
        writer.join()
    wait_until_served(hub, "growing")


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
