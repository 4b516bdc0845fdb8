"""The watched folder: saved is served, removed is gone, broken harms nobody else."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.catalogue.folder import LARGEST, Folder
from patchbay.errors import UnknownServer

HELLO = 'def hello(name: str = "you") -> str:\n    """Says hello."""\n    return "Hello, " + name\n'
WAVE = 'def wave() -> str:\n    """Waves."""\n    return "o/"\n'
Until = Callable[[Callable[[], Any]], Any]


def tools(catalogue: Any, name: str) -> list[str] | None:
    """The tools of a server that is served, None while it is not."""
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


def test_every_change_says_who_and_why(bench: Any) -> None:
    """DESIGN section 4: history"""
    bench.drop("hello.py", HELLO)
    live(bench)
    move = bench.store.names.past("servers/hello", 1)[0]
    assert (move.who, move.why) == ("servers/", "saved hello.py")


def test_shell_and_static_files_are_servers_too(bench: Any) -> None:
    """DESIGN section 5"""
    bench.drop("now.sh", "@bash_command date\n")
    bench.drop("notes.json", {"resources": {"a": {"uri": "note://a", "text": "A"}}})
    catalogue = live(bench)
    assert catalogue.find("now").kind == "shell"
    assert list(catalogue.find("notes").resources) == ["note://a"]


def test_a_configuration_beside_a_file_is_its_own(bench: Any, until: Until) -> None:
    """DESIGN section 5: hello.mcp.json"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", {"title": "Greetings", "auto_discover": True})
    catalogue = live(bench)
    assert catalogue.find("hello").title == "Greetings"
    bench.drop("hello.mcp.json", {"title": "Salutations", "auto_discover": True})
    until(lambda: catalogue.find("hello").title == "Salutations")
    bench.remove("hello.mcp.json")
    until(lambda: catalogue.find("hello").title is None)


def test_a_broken_configuration_is_told_by_its_file(bench: Any) -> None:
    """DESIGN section 5: an error names the file, the path inside it and what was expected"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.mcp.json", {"timeout": 0})
    live(bench)
    assert bench.server("hello").broken == ("servers/hello.mcp.json: at timeout: expected a number above 0; this is 0")


def test_a_broken_file_takes_down_itself_alone(bench: Any, until: Until, caplog: pytest.LogCaptureFixture) -> None:
    """VWR-1: it says why, on its page and once in the log"""
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


def test_a_half_written_file_is_read_again(bench: Any, until: Until) -> None:
    """DESIGN section 5"""
    catalogue = live(bench)
    bench.drop("hello.py", HELLO[:20])
    until(lambda: catalogue.all())
    bench.drop("hello.py", HELLO)
    until(lambda: tools(catalogue, "hello") == ["hello"])


def test_a_drop_in_stands_before_a_boot_server_until_it_goes(bench: Any, until: Until) -> None:
    """DESIGN section 5"""
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
    """DESIGN section 5"""
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
    """DESIGN section 6: any number of processes may watch"""
    bench.drop("hello.py", HELLO)
    bench.drop("bad name.py", HELLO)
    first, second = (Folder(bench.store, bench.settings.servers) for _ in range(2))
    assert first.scan()
    last = bench.store.names.past("", 1)
    assert not first.scan()
    second.scan()
    assert not second.scan()
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
    """THREATS S18, DESIGN section 8"""
    bench.drop(file, HELLO)
    catalogue = live(bench)
    assert expected in catalogue.refused[file]
    assert bench.store.names.all("servers/") == {}


@pytest.mark.parametrize("file", [".hidden.py", "__init__.py", "notes.txt", "hello.py~", "README"])
def test_other_files_are_none_of_its_business(bench: Any, file: str) -> None:
    """DESIGN section 5"""
    bench.drop(file, HELLO)
    catalogue = live(bench)
    assert catalogue.all() == []
    assert catalogue.refused == {}


def test_the_second_of_two_files_for_one_name_is_refused(bench: Any) -> None:
    """THREATS S18"""
    bench.drop("hello.py", HELLO)
    bench.drop("hello.sh", "date\n")
    catalogue = live(bench)
    assert catalogue.find("hello").kind == "python"
    assert catalogue.refused == {"hello.sh": "hello.py is the server hello already: rename one of the two"}


def test_a_file_that_is_too_large_is_broken(bench: Any) -> None:
    """THREATS 1.5"""
    bench.drop("hello.py", "#" * (LARGEST + 1))
    catalogue = live(bench)
    assert "at most 1048576 bytes" in (catalogue.all()[0].broken or "")


def test_only_regular_files_inside_the_folder_are_read(bench: Any, tmp_path: Any) -> None:
    """THREATS 1.6"""
    (tmp_path / "secret.py").write_text(HELLO)
    (bench.settings.servers / "link.py").symlink_to(tmp_path / "secret.py")
    (bench.settings.servers / "folder.py").mkdir()
    os.mkfifo(bench.settings.servers / "pipe.py")
    bench.drop("real.py", HELLO)
    (bench.settings.servers / "alias.py").symlink_to(bench.settings.servers / "real.py")
    catalogue = live(bench)
    assert {"link.py", "folder.py", "pipe.py"} == set(catalogue.refused)
    assert sorted(one.name for one in catalogue.all() if not one.broken) == ["alias", "real"]


def test_a_folder_that_is_not_there_is_an_empty_one(bench: Any) -> None:
    """DESIGN section 5"""
    bench.settings.servers.rmdir()
    assert live(bench).all() == []
