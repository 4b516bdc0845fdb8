"""One changed file among others: what is looked at again, and what stays until two scans agree."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.errors import StoreAway

HELLO = 'def hello(name: str = "you") -> str:\n    """Says hello."""\n    return "Hello, " + name\n'
WAVE = 'def wave() -> str:\n    """Waves."""\n    return "o/"\n'


def started(bench: Any) -> Any:
    """Return a catalogue that has read the folder, and reads it again when a test says so."""
    catalogue = bench.open(watch=True)
    catalogue.read_folder()
    return catalogue


def count_calls(monkeypatch: pytest.MonkeyPatch, of: Any, name: str) -> list[str]:
    """Return a list that gets an entry for each call of a method."""
    calls: list[str] = []
    real = getattr(of, name)

    def call(*given: Any) -> Any:
        calls.append(name)
        return real(*given)

    monkeypatch.setattr(of, name, call)
    return calls


def test_a_server_stays_that_of_its_own_file_while_the_file_is_saved(bench: Any) -> None:
    bench.drop("clients.json", {"mcpServers": {"hello": {"url": "http://127.0.0.1:9/mcp"}}})
    bench.drop("hello.py", HELLO)
    folder = WatchedFolder(bench.store, bench.settings.servers)
    assert folder.start()
    before = bench.store.names.all()
    bench.drop("hello.py", WAVE)
    assert not folder.scan()
    assert bench.store.names.all() == before
    assert folder.scan()
    assert bench.server("hello").definition == bench.keep(WAVE)


def test_a_refused_file_keeps_its_reason_until_its_change_is_confirmed(bench: Any) -> None:
    bench.drop("lonely.mcp.json", {"title": "Alone"})
    folder = WatchedFolder(bench.store, bench.settings.servers)
    assert folder.start()
    reason = folder.refused["lonely.mcp.json"]
    bench.drop("lonely.mcp.json", {"title": "Still alone"})
    assert not folder.scan()
    assert folder.refused == {"lonely.mcp.json": reason}
    bench.remove("lonely.mcp.json")
    assert not folder.scan()
    assert folder.scan()
    assert folder.refused == {}


def test_a_first_scan_of_a_change_leaves_the_other_files_alone(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.drop("hello.py", HELLO)
    bench.drop("wave.py", WAVE)
    folder = WatchedFolder(bench.store, bench.settings.servers)
    assert folder.start()
    looks = count_calls(monkeypatch, folder, "_wanted_servers")
    bench.drop("hello.py", HELLO + WAVE)
    assert not folder.scan() and not looks
    assert folder.scan() and len(looks) == 1
    assert not folder.scan() and len(looks) == 1


def test_other_changes_of_the_same_scan_do_not_wait_longer(bench: Any) -> None:
    """A file that is saved all the time holds up no other."""
    bench.drop("hello.py", HELLO)
    folder = WatchedFolder(bench.store, bench.settings.servers)
    assert folder.start()
    bench.drop("wave.py", WAVE)
    bench.drop("hello.py", HELLO * 2)
    assert not folder.scan()
    bench.drop("hello.py", HELLO * 3)
    assert folder.scan()
    assert bench.server("wave").tools and bench.server("hello").definition == bench.keep(HELLO)
    bench.remove("wave.py")
    bench.drop("hello.py", HELLO * 4)
    assert not folder.scan()
    assert folder.scan()
    assert bench.store.names.get("servers/wave") is None
    assert bench.server("hello").definition == bench.keep(HELLO * 4)


def test_one_change_is_planned_once_by_the_two_threads_that_hear_of_it(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.drop("hello.py", HELLO)
    catalogue = started(bench)
    plans = count_calls(monkeypatch, catalogue._planner, "plan")
    bench.drop("hello.py", WAVE)
    catalogue._import_from_folder(catalogue._folder.scan)
    assert not plans

    def scan_and_hear() -> bool:
        changed = catalogue._folder.scan()
        catalogue.catch_up()  # the other thread has heard of the moved names, and is faster
        return bool(changed)

    catalogue._import_from_folder(scan_and_hear)
    assert len(plans) == 1
    assert list(catalogue.find("hello").tools) == ["wave"]


def test_a_file_that_is_only_refused_is_shown_without_a_move_of_a_name(bench: Any) -> None:
    catalogue = started(bench)
    bench.drop("lonely.mcp.json", {"title": "Alone"})
    for _ in range(2):
        catalogue._import_from_folder(catalogue._folder.scan)
    assert "beside it" in catalogue.find_any("lonely").broken
    bench.remove("lonely.mcp.json")
    for _ in range(2):
        catalogue._import_from_folder(catalogue._folder.scan)
    assert catalogue.find_any("lonely") is None


def test_a_change_that_could_not_be_announced_is_announced_by_the_next_poll(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    bench.plug("hello", WAVE)

    def fails(*given: Any) -> Any:
        raise StoreAway("out of luck")

    journal = partial(bench.store.journal.read, "changes/hello")
    before = len(journal())
    with monkeypatch.context() as patch:
        patch.setattr(catalogue._versions, "announce_all", fails)
        with pytest.raises(StoreAway):
            catalogue.catch_up()
    for _ in range(2):
        catalogue.catch_up()
    assert len(journal()) == before + 1
