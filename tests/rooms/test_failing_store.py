"""Entries of several threads while the store fails."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from patchbay.errors import ContentError
from patchbay.rooms.record.envelope import hub_envelope
from patchbay.stores.memory import MemoryJournal, MemoryStore
from tests.rooms.people import rooms_of
from tests.waiting import until


class FailingJournal(MemoryJournal):
    """A journal that appends nothing while it is away."""

    is_away = False

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        if self.is_away:
            raise ContentError("the store is away")
        return super().append_all(entries, last)


def test_each_of_two_threads_whose_entries_fail_together_gets_the_error() -> None:
    store, journal, failed = MemoryStore(), FailingJournal(), []
    store.journal = journal
    with rooms_of(store) as rooms:
        core = rooms.create("demo", "ann").core

        def say() -> None:
            try:
                core.append_own("note", {})
            except ContentError as problem:
                failed.append(str(problem))

        threads = [threading.Thread(target=say, daemon=True) for _ in range(2)]
        with core.log.lock:
            for thread in threads:
                thread.start()
            until(lambda: len(core.log._waiting) == 2, "both entries wait")
            journal.is_away = True
        until(lambda: not any(thread.is_alive() for thread in threads), "the end of both threads")
        assert failed == ["the store is away"] * 2
        journal.is_away = False
        assert core.append_own("note", {}).entry.seq == 2


def test_a_repeat_of_an_entry_that_was_not_stored_gets_the_error_too() -> None:
    """Both have one id, and go to the store in one step."""
    store, journal, answers = MemoryStore(), FailingJournal(), []
    store.journal = journal
    with rooms_of(store) as rooms:
        log = rooms.create("demo", "ann").core.log
        one = hub_envelope("demo", "note", {}, 1)

        def say() -> None:
            try:
                answers.append(str(log.append(lambda fold, now: one).entry.seq))
            except ContentError as problem:
                answers.append(str(problem))

        threads = [threading.Thread(target=say, daemon=True) for _ in range(2)]
        with log.lock:
            for thread in threads:
                thread.start()
            until(lambda: len(log._waiting) == 2, "both entries wait")
            journal.is_away = True
        until(lambda: not any(thread.is_alive() for thread in threads), "the end of both threads")
        assert answers == ["the store is away"] * 2
        journal.is_away = False
        assert log.append(lambda fold, now: one).entry.seq == 2
