"""The roots that clients gave: whose they are, and when they are forgotten."""

from __future__ import annotations

import math
from typing import Any

import pytest

from patchbay.activation import Call
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ROOTS_CHANGED
from patchbay.upstreams import remembered_roots
from patchbay.upstreams.remembered_roots import RememberedRoots

ADA: dict[str, Any] = {"roots": [{"uri": "file:///home/ada"}]}


def answer(roots: RememberedRoots, principal: str, client: str, given: dict[str, Any]) -> None:
    """Ask a client, and remember its answer."""
    generation = roots.name_generation(principal, client)
    roots.remember(called_by(principal, client), given, generation)


def called_by(principal: str, client: str) -> Call:
    return Call("far", {}, {}, math.inf, principal=principal, client=client)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def roots(store: MemoryStore) -> RememberedRoots:
    found = RememberedRoots(store.bus)
    answer(found, "ada", "session", ADA)
    return found


def test_roots_are_given_to_the_same_client_of_the_same_principal_only(roots: RememberedRoots) -> None:
    """Issue 17, part 7: never the roots of one person to a call of another."""
    assert roots.find("ada", "session") == ADA
    assert roots.find("ben", "session") is None
    assert roots.find("ada", "another session") is None


def test_a_client_without_a_name_is_asked_each_time(roots: RememberedRoots) -> None:
    answer(roots, "local", "", ADA)
    assert roots.find("local", "") is None
    assert roots.name_generation("local", "") == ""


def test_roots_are_forgotten_when_the_client_reports_a_change(store: MemoryStore, roots: RememberedRoots) -> None:
    before = roots.name_generation("ada", "session")
    store.bus.publish(ROOTS_CHANGED, b"another session")
    assert roots.find("ada", "session") == ADA
    store.bus.publish(ROOTS_CHANGED, b"session")
    assert roots.find("ada", "session") is None
    assert roots.name_generation("ada", "session") != before


def test_other_roots_are_another_generation(roots: RememberedRoots) -> None:
    """A connection whose server has older roots is not used again."""
    before = roots.name_generation("ada", "session")
    answer(roots, "ada", "session", dict(ADA))
    assert roots.name_generation("ada", "session") == before
    answer(roots, "ada", "session", {"roots": []})
    assert roots.name_generation("ada", "session") != before


def test_memory_has_bounds(monkeypatch: pytest.MonkeyPatch, roots: RememberedRoots) -> None:
    long = {"roots": [{"uri": "file:///" + "a" * remembered_roots.MAX_ROOTS_BYTES}]}
    answer(roots, "ada", "long", long)
    assert roots.find("ada", "long") is None
    monkeypatch.setattr(remembered_roots, "MAX_CLIENTS", 2)
    for client in ("one", "two"):
        answer(roots, "ada", client, ADA)
    assert [roots.find("ada", client) for client in ("session", "one", "two")] == [None, ADA, ADA]


def test_an_answer_with_an_integer_beyond_64_bits_is_remembered(roots: RememberedRoots) -> None:
    """Issue 50, item 11."""
    large = {"roots": [], "_meta": {"count": 2**70}}
    answer(roots, "ben", "session", large)
    assert roots.find("ben", "session") == large


def test_roots_are_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch, roots: RememberedRoots) -> None:
    monkeypatch.setattr(remembered_roots, "ROOTS_SECONDS", 0.0)
    answer(roots, "ada", "old", ADA)
    assert roots.find("ada", "old") is None


def test_an_answer_is_not_remembered_when_the_client_reported_a_change_after_it_was_asked(store: MemoryStore) -> None:
    """The report and the answer arrive over two connections: the answer may be the older one."""
    roots = RememberedRoots(store.bus)
    generation = roots.name_generation("ada", "session")
    store.bus.publish(ROOTS_CHANGED, b"session")
    roots.remember(called_by("ada", "session"), ADA, generation)
    assert roots.find("ada", "session") is None
    answer(roots, "ada", "session", ADA)
    assert roots.find("ada", "session") == ADA


def test_all_roots_are_forgotten_when_reports_of_changes_were_dropped(
    store: MemoryStore, roots: RememberedRoots
) -> None:
    store.bus.publish(ROOTS_CHANGED, b"session")
    for number in range(300):
        store.bus.publish(ROOTS_CHANGED, b"another session %d" % number)
    assert roots.find("ada", "session") is None
    answer(roots, "ada", "session", ADA)
    assert roots.find("ada", "session") == ADA
