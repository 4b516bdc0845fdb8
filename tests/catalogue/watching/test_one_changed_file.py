"""One changed file among others: what is looked at again, and what stays until two scans agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from patchbay.catalogue import catalogue as catalogue_module
from patchbay.catalogue import planning
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


def functions_called(work: Callable[[], Any]) -> int:
    """Return how many functions of the hub this thread calls in some work, those that dataclasses make included."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and (
            "/patchbay/" in frame.f_code.co_filename or frame.f_code.co_filename == "<string>"
        )

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cost_of_one_change(bench: Any, catalogue: Any, text: str) -> tuple[int, int]:
    """Save a file; return the functions called by the scan and the refresh, and those of the next whole list."""
    bench.drop("s0.py", text)
    assert not catalogue._folder.scan()
    found = functions_called(lambda: catalogue._import_from_folder(catalogue._folder.scan))
    assert catalogue.find("s0").definition == bench.keep(text)
    return found, functions_called(catalogue.aggregate)


def test_the_work_for_one_saved_file_does_not_grow_with_the_number_of_other_servers(bench: Any) -> None:
    """51.7: calls of functions are counted, not time."""
    for number in range(5):
        bench.drop(f"s{number}.py", HELLO)
    catalogue = started(bench)
    cost_of_one_change(bench, catalogue, HELLO + "\n")  # what is loaded once is loaded here
    few = cost_of_one_change(bench, catalogue, HELLO + "\n" * 2)
    for number in range(5, 65):
        bench.drop(f"s{number}.py", HELLO)
    for _ in range(2):
        catalogue._import_from_folder(catalogue._folder.scan)
    assert len(catalogue.served) >= 65
    cost_of_one_change(bench, catalogue, HELLO + "\n" * 3)
    many = cost_of_one_change(bench, catalogue, HELLO + "\n" * 4)
    assert many[0] - few[0] < 10, "the scan and the refresh look at the changed server alone"
    assert many[1] - few[1] <= 60, "the list of all servers asks each other server for its entries once"


def test_a_saved_file_builds_one_server_and_recognizes_no_other_configuration(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """51.7"""
    for number in range(5):
        bench.configure(f"far{number}", {"kind": "upstream", "address": f"http://127.0.0.1:9/{number}"})
        bench.drop(f"s{number}.py", HELLO)
    catalogue = started(bench)
    built = count_calls(monkeypatch, catalogue_module, "build_server")
    recognized = count_calls(monkeypatch, planning, "configured_kind")
    cost_of_one_change(bench, catalogue, HELLO + "\n")
    assert (built, recognized) == (["build_server"], [])
    bench.configure("far9", {"kind": "upstream", "address": "http://127.0.0.1:9/9"})
    catalogue.refresh()
    assert len(recognized) == 6 and catalogue.find_any("far9") is not None


def test_the_names_of_a_changed_server_change_in_the_list_of_all_servers(bench: Any) -> None:
    bench.drop("s0.py", HELLO)
    bench.drop("s1.py", HELLO)
    catalogue = started(bench)
    assert {"s0__hello", "s1__hello"} <= catalogue.aggregate().tools.keys()
    kept = catalogue.aggregate().tools["s1__hello"]
    cost_of_one_change(bench, catalogue, WAVE)
    now = catalogue.aggregate().tools
    assert "s0__hello" not in now and "s0__wave" in now and now["s1__hello"] is kept
    bench.remove("s1.py")
    for _ in range(2):
        catalogue._import_from_folder(catalogue._folder.scan)
    assert "s1__hello" not in catalogue.aggregate().tools


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
