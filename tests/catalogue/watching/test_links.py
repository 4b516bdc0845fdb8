"""Symbolic links in the watched folder: those that stay inside are followed, as Kubernetes mounts a ConfigMap."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.servers.rows import RowReader
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.catalogue.watching.links import open_inside, resolve_inside
from patchbay.errors import UnknownServer

Until = Callable[[Callable[[], Any]], Any]

SOURCE = "def version_%s() -> str:\n    return ''\n"


def tools(catalogue: Any, *names: str) -> list[list[str]]:
    """Return the tools of each server, an empty list for a server that is not served."""
    found = []
    for name in names:
        try:
            found.append(list(catalogue.find(name).tools))
        except UnknownServer:
            found.append([])
    return found


def mount_version(folder: Path, version: str, *names: str) -> None:
    """Write files as the kubelet does: into a folder of their own, to which `..data` leads after one rename."""
    (folder / f"..{version}").mkdir()
    for name in names:
        (folder / f"..{version}" / f"{name}.py").write_text(SOURCE % version)
    lead(folder, "..data", f"..{version}")
    for name in names:
        if not (folder / f"{name}.py").is_symlink():
            (folder / f"{name}.py").symlink_to(f"..data/{name}.py")


def lead(folder: Path, link: str, target: Path | str) -> None:
    """Let a link of a folder lead to a target, by one rename."""
    (folder / "new").symlink_to(target)
    (folder / "new").rename(folder / link)


def test_the_files_of_a_config_map_are_served_and_a_new_version_is_one_change(bench: Any, until: Until) -> None:
    """50.14"""
    folder, names = bench.settings.servers, ("one", "two", "three")
    mount_version(folder, "1", *names)
    catalogue = bench.open(watch=True)
    catalogue.start()
    assert catalogue.refused == {}
    assert tools(catalogue, *names) == 3 * [["version_1"]]
    before = len(bench.store.names.past("root"))
    mount_version(folder, "2", *names)
    until(lambda: tools(catalogue, *names) == 3 * [["version_2"]])
    roots = bench.store.names.past("root")
    assert len(roots) == before + 1
    assert roots[0].why == "saved one.py, three.py, two.py"


def test_no_scan_serves_files_of_two_versions(bench: Any) -> None:
    """50.14: `..data` leads to another version during each scan."""
    folder, names = bench.settings.servers, tuple(f"s{number}" for number in range(40))
    mount_version(folder, "0", *names)
    mount_version(folder, "1", *names)
    watched = WatchedFolder(bench.store, folder)
    watched.start()
    rows, reader = bench.store.names, RowReader(bench.store.blobs)
    for number in range(100):
        turning = threading.Thread(target=lead, args=(folder, "..data", f"..{number % 2}"))
        turning.start()
        watched.scan()
        turning.join()
        watched.scan()
        found = [reader.read(name.removeprefix("servers/"), cid) for name, cid in rows.all("servers/").items()]
        assert len({row.definition_cid for row in found}) == 1, number


def test_a_link_out_of_the_folder_is_refused_by_every_way(bench: Any, tmp_path: Path) -> None:
    """50.14: a file, a folder in the way, and a parent."""
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "secret.py").write_text(SOURCE % "secret")
    folder = bench.settings.servers
    (folder / "file.py").symlink_to(outside / "secret.py")
    (folder / "way").symlink_to(outside)
    (folder / "through.py").symlink_to("way/secret.py")
    (folder / "up.py").symlink_to(f"../{os.path.relpath(outside / 'secret.py', folder.parent)}")
    (folder / "circle.py").symlink_to("circle.py")
    (folder / "lost.py").symlink_to("nothing.py")
    (folder / "folder.py").symlink_to(".")
    catalogue = bench.open(watch=True)
    catalogue.start()
    refused = catalogue.refused
    leads_out = "expected a regular file, or a link to one in this folder; it leads out of it"
    assert {file for file, reason in refused.items() if reason == leads_out} == {"file.py", "through.py", "up.py"}
    assert refused["circle.py"].startswith("it cannot be read: Too many levels")
    assert refused["lost.py"] == "it cannot be read: No such file or directory"
    assert refused["folder.py"] == "expected a regular file in this folder"
    with pytest.raises(UnknownServer):
        catalogue.find("file")


def test_a_folder_that_becomes_a_link_before_the_reading_opens_nothing_outside(tmp_path: Path) -> None:
    """50.14: another program with the same folder turns it all the time."""
    folder, ending = tmp_path / "servers", threading.Event()
    for place, text in (("servers/..1", "inside"), ("outside", "secret")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "one.py").write_text(text)
    (folder / "one.py").symlink_to("..1/one.py")
    target = resolve_inside(folder, "one.py")
    assert target is not None

    def turn() -> None:
        while not ending.is_set():
            (folder / "..1").rename(folder / "..2")
            (folder / "..1").symlink_to(tmp_path / "outside")
            (folder / "..1").unlink()
            (folder / "..2").rename(folder / "..1")

    turning, outcomes = threading.Thread(target=turn), set()
    turning.start()
    try:
        for _ in range(5000):
            try:
                with os.fdopen(open_inside(folder, "one.py", target)) as opened:
                    outcomes.add(opened.read())
            except OSError as problem:
                outcomes.add(str(problem.errno))
    finally:
        ending.set()
        turning.join()
    assert "secret" not in outcomes
    with os.fdopen(open_inside(folder, "one.py", target)) as opened:
        assert opened.read() == "inside"


def test_a_linked_file_that_is_saved_is_served_at_once(bench: Any, until: Until) -> None:
    """50.14: the folder that a link leads to is watched too."""
    folder = bench.settings.servers
    (folder / "below").mkdir()
    (folder / "below" / "one.py").write_text(SOURCE % 1)
    (folder / "one.py").symlink_to("below/one.py")
    catalogue = bench.open(watch=True)
    catalogue.start()
    watched = WatchedFolder(bench.store, folder)
    watched.start()
    assert (folder / "below").resolve() in watched.folders()
    (folder / "below" / "one.py").write_text(SOURCE % 2)
    until(lambda: tools(catalogue, "one") == [["version_2"]])


def test_a_link_resolves_to_a_file_inside_or_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").touch()
    (tmp_path / "out.py").touch()
    (tmp_path / "a" / "in.py").symlink_to("b/c.py")
    (tmp_path / "a" / "out.py").symlink_to("../out.py")
    assert resolve_inside(tmp_path / "a", "in.py") == (tmp_path / "a" / "b" / "c.py").resolve()
    assert resolve_inside(tmp_path / "a", "out.py") is None
