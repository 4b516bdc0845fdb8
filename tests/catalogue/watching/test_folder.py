"""The watched folder: saved files are served, removed ones are withdrawn, broken ones affect no other server."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.catalogue.watching.drop_ins import drop_ins
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.catalogue.watching.listing import MAX_FILE_BYTES
from patchbay.catalogue.watching.settling import SETTLED_SECONDS
from patchbay.errors import ConfigError, UnknownServer

HELLO = 'def hello(name: str = "you") -> str:\n    """Says hello."""\n    return "Hello, " + name\n'
WAVE = 'def wave() -> str:\n    """Waves."""\n    return "o/"\n'
Until = Callable[[Callable[[], Any]], Any]


def tools(catalogue: Any, name: str) -> list[str] | None:
    """Return the tools of a served server, None while it is not served."""
    try:
        return list(catalogue.find(name).tools)
    except UnknownServer:
        return None


def live(bench: Any) -> Any:
    catalogue = bench.open(watch=True)
    catalogue.start()
    return catalogue


def test_a_saved_file_is_served_and_a_removed_one_is_gone(bench: Any, until: Until) -> None:
    """VWR-1: live without a restart"""
    catalogue = live(bench)
    bench.drop("hello.py", HELLO)
    until(lambda: tools(catalogue, "hello") == ["hello"])
    assert catalogue.find("hello").origin == "servers/hello.py"
    bench.drop("hello.py", WAVE)
    until(lambda: tools(catalogue, "hello") == ["wave"])
    bench.remove("hello.py")
    until(lambda: tools(catalogue, "hello") is None)
    assert bench.store.names.all("servers/") == {}


def test_every_change_records_who_and_why(bench: Any) -> None:
    bench.drop("hello.py", HELLO)
    live(bench)
    move = bench.store.names.past("servers/hello", 1)[0]
    assert (move.who, move.why) == ("servers/", "saved hello.py")


def test_shell_and_static_files_are_servers_too(bench: Any) -> None:
    bench.drop("now.sh", "@bash_command date\n")
    bench.drop("notes.json", {"resources": {"a": {"uri": "note://a", "text": "A"}}})
    catalogue = live(bench)
    assert catalogue.find("now").kind == "shell"
    assert list(catalogue.find("notes").resources) == ["note://a"]


def test_a_configuration_beside_a_file_is_its_own(bench: Any, until: Until) -> None:
    """hello.mcp.json"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", {"title": "Greetings", "auto_discover": True})
    catalogue = live(bench)
    assert catalogue.find("hello").title == "Greetings"
    bench.drop("hello.mcp.json", {"title": "Salutations", "auto_discover": True})
    until(lambda: catalogue.find("hello").title == "Salutations")
    bench.remove("hello.mcp.json")
    until(lambda: catalogue.find("hello").title is None)


@pytest.mark.parametrize("config", ["{}", '{ "title": "N" }', '{"tools": {}, "timeout": 5}'])
def test_a_configuration_that_lists_no_tools_leaves_those_of_the_code(bench: Any, config: str) -> None:
    """VWR-21: a title alone does not empty a server, and its pins show the same"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", config)
    catalogue = live(bench)
    server = catalogue.find("hello")
    assert list(server.tools) == ["hello"]
    assert {**json.loads(config), "auto_discover": True} == server.config
    assert list(catalogue.pinned("hello", server.version).tools) == ["hello"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_configuration_with_a_byte_order_mark_is_used(bench: Any, encoding: str) -> None:
    """50.9: beside code, and of a server of its own."""
    bench.drop("hello.py", HELLO)
    (bench.settings.servers / "hello.mcp.json").write_bytes('\ufeff{"title": "Grüße"}'.encode(encoding))
    (bench.settings.servers / "fixed.json").write_bytes('\ufeff{"kind": "static", "title": "Ö"}'.encode(encoding))
    catalogue = live(bench)
    assert (catalogue.find("hello").title, list(catalogue.find("hello").tools)) == ("Grüße", ["hello"])
    assert catalogue.find("fixed").title == "Ö"


def test_a_configuration_that_is_not_in_the_encoding_of_its_mark_is_refused(bench: Any) -> None:
    """50.9"""
    (bench.settings.servers / "fixed.json").write_bytes(b"\xff\xfe{")
    assert live(bench).refused["fixed.json"].startswith("the file begins with the byte order mark of UTF-16-LE and is")


@pytest.mark.parametrize("config", [{"auto_discover": False}, {"tools": {"hi": {"function": "hello"}}}])
def test_a_configuration_with_its_own_lists_is_followed(bench: Any, config: Any) -> None:
    """V-C2"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", config)
    assert list(live(bench).find("hello").tools) == list(config.get("tools", {}))


@pytest.mark.parametrize("config", ["", "{", "[]", "7"])
def test_a_configuration_that_is_not_an_object_breaks_its_server(bench: Any, config: str) -> None:
    """T1.8"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", config)
    live(bench)
    assert "servers/hello.mcp.json" in bench.server("hello").broken


def test_many_files_are_one_change_and_live_in_seconds(bench: Any, until: Until) -> None:
    for number in range(300):
        bench.drop(f"s{number}.py", f"def f{number}() -> int: return {number}\n")
    bench.drop("servers.py", HELLO)
    bench.drop("broken.py", "def (")
    dropped = time.time()
    until(lambda: time.time() > dropped + 2 * SETTLED_SECONDS)  # the files were complete before the hub starts
    began = time.process_time()
    catalogue = live(bench)
    assert time.process_time() - began < 10
    assert sum(not one.broken for one in catalogue.all()) == 300
    assert list(catalogue.refused) == ["servers.py"]
    roots = bench.store.names.past("root")
    assert len(roots) == 1
    assert "saved broken.py, s0.py, " in roots[0].why
    assert roots[0].why.endswith(" and 291 more")


def test_a_file_that_is_renamed_is_one_change(bench: Any, until: Until) -> None:
    bench.drop("hello.py", HELLO)
    catalogue = live(bench)
    (bench.settings.servers / "hello.py").rename(bench.settings.servers / "hi.py")
    until(lambda: tools(catalogue, "hi"))
    assert tools(catalogue, "hello") is None
    assert bench.store.names.past("root", 1)[0].why == "removed hello.py; saved hi.py"
    assert bench.store.names.all("dropins/").keys() == {"dropins/hi"}


def test_a_name_that_differs_by_case_alone_does_not_take_down_the_one_before(bench: Any, until: Until) -> None:
    """The earlier name stays, also after a restart."""
    bench.drop("odd.py", HELLO)
    catalogue = live(bench)
    bench.drop("Odd.py", WAVE)
    until(lambda: len(catalogue.all()) == 2)
    assert tools(catalogue, "odd") == ["hello"]
    assert "differs from that of odd by case alone" in bench.server("Odd").broken
    assert tools(live(bench), "odd") == ["hello"]
    bench.remove("odd.py")
    until(lambda: tools(catalogue, "Odd") == ["wave"])
    bench.drop("odd.py", HELLO)
    until(lambda: len(catalogue.all()) == 2)
    assert tools(catalogue, "Odd") == ["wave"]


def test_a_broken_configuration_is_reported_under_its_file(bench: Any) -> None:
    """An error names the file, the path inside it and the expectation."""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", {"timeout": 0})
    live(bench)
    assert bench.server("hello").broken == ("servers/hello.mcp.json: at timeout: expected a number above 0; this is 0")


def test_a_broken_file_takes_down_itself_alone(bench: Any, until: Until, caplog: pytest.LogCaptureFixture) -> None:
    """VWR-1: its page and one log line give the reason"""
    bench.drop("good.py", WAVE)
    bench.drop("hello.py", HELLO)
    catalogue = live(bench)
    with caplog.at_level(logging.WARNING):
        bench.drop("hello.py", HELLO + "def broken(:\n")
        until(lambda: tools(catalogue, "hello") is None)
    broken = next(one for one in catalogue.all() if one.name == "hello").broken or ""
    assert "line 4" in broken
    assert tools(catalogue, "good") == ["wave"]
    assert caplog.text.count(broken) == 1
    bench.drop("hello.py", HELLO)
    until(lambda: tools(catalogue, "hello") == ["hello"])


def test_a_drop_in_replaces_a_boot_server_until_it_is_removed(bench: Any, until: Until) -> None:
    bench.plug("hello", WAVE)
    catalogue = live(bench)
    bench.drop("hello.py", HELLO)
    until(lambda: tools(catalogue, "hello") == ["hello"])
    bench.drop("hello.py", HELLO + "\n")
    until(lambda: catalogue.find("hello").definition == bench.keep(HELLO + "\n"))
    bench.remove("hello.py")
    until(lambda: tools(catalogue, "hello") == ["wave"])
    assert catalogue.find("hello").origin == "boot image"


def test_a_file_that_went_while_the_hub_was_down_is_withdrawn(bench: Any) -> None:
    bench.plug("hello", WAVE)
    bench.drop("hello.py", HELLO)
    bench.drop("other.py", HELLO)
    live(bench).close()
    bench.remove("hello.py")
    bench.remove("other.py")
    catalogue = live(bench)
    assert tools(catalogue, "hello") == ["wave"]
    assert tools(catalogue, "other") is None


def test_a_drop_in_that_was_disabled_stays_so(bench: Any) -> None:
    """VWR-16"""
    bench.drop("hello.py", HELLO)
    live(bench).close()
    bench.plug("hello", HELLO, enabled=False)
    bench.drop("hello.py", HELLO + WAVE)
    live(bench).close()
    assert not bench.server("hello").enabled
    assert bench.server("hello").definition == bench.keep(HELLO + WAVE)


def test_the_same_folder_twice_changes_nothing(bench: Any) -> None:
    """Any number of processes may watch."""
    bench.drop("hello.py", HELLO)
    bench.drop("bad name.py", HELLO)
    first, second = (WatchedFolder(bench.store, bench.settings.servers) for _ in range(2))
    assert first.start()
    last = bench.store.names.past("", 1)
    assert not first.start()
    second.start()
    assert not second.start()
    assert bench.store.names.past("", 1) == last


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("bad name.py", "expected 1 to 128 letters"),
        ("servers.py", "a page of its own"),
        ("lonely.mcp.json", "expected lonely.py or lonely.sh beside it"),
    ],
)
def test_a_file_that_cannot_be_a_server_is_refused(bench: Any, file: str, expected: str) -> None:
    bench.drop(file, HELLO)
    catalogue = live(bench)
    assert expected in catalogue.refused[file]
    assert bench.store.names.all("servers/") == {}


@pytest.mark.parametrize(
    "file",
    [
        *(".hidden.py", "__init__.py", "notes.txt", "hello.py~", "README"),
        *(".hello.py.swp", ".#hello.py", "#hello.py#", "#hello.py", "~hello.py", "~$hello.json", "4913", "hello~.py"),
        *("hello.tmp.py", "hello.py.tmp.4711.1700000000.py", "hello.swp.json", "hello.bak.mcp.json", "hello.orig.sh"),
        *(".hello.py.a1b2c3", ".goutputstream-A1B2C3", "hello.py___jb_tmp___", "hello.py.kate-swp", "hello.py.save"),
    ],
)
def test_other_files_are_ignored(bench: Any, file: str) -> None:
    bench.drop(file, HELLO)
    catalogue = live(bench)
    assert catalogue.all() == []
    assert catalogue.refused == {}


def test_the_second_of_two_files_for_one_name_is_refused(bench: Any) -> None:
    bench.drop("hello.py", HELLO)
    bench.drop("hello.sh", "date\n")
    catalogue = live(bench)
    assert catalogue.find("hello").kind == "python"
    assert catalogue.refused == {"hello.sh": "hello.py is the server hello already: rename one of the two"}


def test_a_file_that_is_too_large_is_broken(bench: Any) -> None:
    bench.drop("hello.py", "#" * (MAX_FILE_BYTES + 1))
    catalogue = live(bench)
    assert "at most 1048576 bytes" in (catalogue.all()[0].broken or "")


def test_only_regular_files_inside_the_folder_are_read(bench: Any, tmp_path: Any) -> None:
    (tmp_path / "secret.py").write_text(HELLO)
    (bench.settings.servers / "link.py").symlink_to(tmp_path / "secret.py")
    (bench.settings.servers / "folder.py").mkdir()
    os.mkfifo(bench.settings.servers / "pipe.py")
    bench.drop("real.py", HELLO)
    (bench.settings.servers / "alias.py").symlink_to(bench.settings.servers / "real.py")
    catalogue = live(bench)
    assert {"link.py", "folder.py", "pipe.py"} == set(catalogue.refused)
    assert sorted(one.name for one in catalogue.all() if not one.broken) == ["alias", "real"]


def test_a_missing_folder_counts_as_empty(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and not created."""
    bench.settings.servers.rmdir()
    with caplog.at_level(logging.WARNING):
        catalogue = live(bench)
    assert catalogue.all() == []
    assert caplog.text.count("does not exist; create it") == 1
    assert str(bench.settings.servers) in caplog.text
    assert not bench.settings.servers.exists()


def test_a_folder_that_becomes_unreadable_is_logged_once(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The servers stay as they are."""
    folder = WatchedFolder(bench.store, bench.settings.servers)
    bench.drop("hello.py", HELLO)
    assert folder.start()
    bench.settings.servers.rename(bench.settings.servers.with_name("away"))
    bench.settings.servers.write_text("a file")
    with caplog.at_level(logging.WARNING):
        assert not any(folder.start() for _ in range(3))
    assert caplog.text.count("cannot be read: Not a directory") == 1
    assert bench.store.names.all("servers/").keys() == {"servers/hello"}


def test_a_file_in_place_of_the_folder_is_reported_at_the_start(bench: Any) -> None:
    bench.settings.servers.rmdir()
    bench.settings.servers.write_text(HELLO)
    with pytest.raises(ConfigError, match="the setting servers: expected a folder"):
        live(bench)


def test_two_hubs_that_start_together_agree_on_the_replaced_server(bench: Any) -> None:
    """A server that the other process made is not taken for one of the boot image."""
    names = [f"s{number}" for number in range(40)]
    for name in names:
        bench.drop(f"{name}.py", HELLO)
    folders = [WatchedFolder(bench.store, bench.settings.servers) for _ in range(4)]
    threads = [threading.Thread(target=folder.start) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {found.base for found in drop_ins(bench.store).values()} == {None}
    for name in names:
        bench.remove(f"{name}.py")
    folders[0].start()
    assert bench.store.names.all("servers/") == {}


def test_a_server_whose_configuration_cannot_be_read_is_not_served_without_it(bench: Any, until: Until) -> None:
    """Without it, functions would be listed that its author hides."""
    outside = bench.settings.servers.parent / "outside.json"
    outside.write_text(json.dumps({"tools": {"hello": {}}}))
    (bench.settings.servers / "my.notes.mcp.json").symlink_to(outside)
    bench.drop("my.notes.py", HELLO + WAVE)
    catalogue = live(bench)
    assert tools(catalogue, "my.notes") is None
    (found,) = catalogue.all()
    assert (found.name, found.origin) == ("my.notes", "servers/my.notes.mcp.json")
    assert catalogue.refused["my.notes.py"].startswith("its configuration my.notes.mcp.json cannot be used: expected")
    bench.remove("my.notes.mcp.json")
    bench.drop("my.notes.mcp.json", {"tools": {"hello": {}}})
    until(lambda: tools(catalogue, "my.notes") == ["hello"])
