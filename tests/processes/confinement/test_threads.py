"""The thread that begins confined commands."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from patchbay.processes.confinement import landlock, threads
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.protections import ALL
from patchbay.processes.confinement.threads import Confiner
from tests.waiting import until


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The threads that were confined, without the kernel."""
    found: list[int] = []
    monkeypatch.setattr(landlock, "version", lambda: 1)
    monkeypatch.setattr(landlock, "make_ruleset", lambda _: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(landlock, "enforce", lambda _: found.append(threading.get_ident()))
    monkeypatch.setattr(threads, "drop_capabilities", lambda: None)
    yield found


def launchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "start of tools"]


def test_all_commands_of_a_definition_begin_in_one_confined_thread(confined: list[int]) -> None:
    """Issue 11.7: the caller's own thread is never confined."""
    confiner = Confiner(AllowedPaths(), ALL)
    begun = {confiner(threading.get_ident) for _ in range(20)}
    assert begun == set(confined)
    assert len(confined) == 1
    assert threading.get_ident() not in begun


def test_a_thread_with_old_rules_is_replaced_and_ends(confined: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(launchers())
    monkeypatch.setattr(threads, "FRESH_SECONDS", 0.05)
    confiner = Confiner(AllowedPaths(), ALL)
    until(lambda: confiner(threading.get_ident) == confined[-1] and len(confined) > 2)
    until(lambda: len(launchers()) <= before)
    assert confiner(threading.get_ident) == confined[-1]


def test_nothing_begins_where_the_thread_cannot_be_confined(
    confined: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 11.8: confinement fails closed."""

    def refuse(_: int) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(landlock, "enforce", refuse)
    begun: list[int] = []
    with pytest.raises(PermissionError):
        Confiner(AllowedPaths(), ALL)(lambda: begun.append(1))
    assert begun == []


def test_an_exception_at_the_start_reaches_the_caller(confined: list[int]) -> None:
    def begin() -> None:
        raise FileNotFoundError("prog")

    confiner = Confiner(AllowedPaths(), ALL)
    with pytest.raises(FileNotFoundError, match="prog"):
        confiner(begin)
    assert confiner(lambda: 3) == 3
    assert len(confined) == 1


def test_without_the_protection_the_caller_begins_the_command_itself(confined: list[int]) -> None:
    assert Confiner(AllowedPaths(), ())(threading.get_ident) == threading.get_ident()
    assert confined == []
