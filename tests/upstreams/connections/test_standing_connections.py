"""Which connections of mounts a hub maintains: those of all mounts, and the changes of some."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.store import Store
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.standing_connections import MAX_SPARE_CONNECTIONS, StandingConnections
from patchbay.upstreams.standing import MountContext

A, B, C = (Mount(name, f"http://127.0.0.1:9/{name}") for name in "abc")


@pytest.fixture
def connections(store: Store) -> Iterator[StandingConnections]:
    """Connections of which none begins before its first use."""
    context = MountContext(store, {}, "hub", "1", lambda: None, "tell")
    found = StandingConnections(context, lambda name: False)
    yield found
    found.close()


def test_a_change_ends_the_mounts_that_left_and_touches_no_other(connections: StandingConnections) -> None:
    connections.keep([A, B])
    first, second = connections.of(A), connections.of(B)
    connections.change([A], [C])
    assert first._ending.is_set() and not second._ending.is_set()
    assert connections.of(B) is second and connections.of(C)._is_current
    assert connections.of(A) is not first and not connections.of(A)._is_current


def test_a_mount_that_leaves_and_comes_in_one_change_stays(connections: StandingConnections) -> None:
    connections.keep([A])
    standing = connections.of(A)
    connections.change([A], [A])
    assert connections.of(A) is standing and standing._is_current and not standing._ending.is_set()


def test_a_mount_that_was_ended_is_current_again_after_a_change(connections: StandingConnections) -> None:
    connections.keep([A])
    connections.end(A)
    connections.change([A], [A])
    assert connections.of(A)._is_current


def test_a_mount_that_is_not_maintained_is_not_ended_by_a_change(connections: StandingConnections) -> None:
    """The connection of an older version, which a pinned address uses."""
    older = connections.of(A)
    connections.change([A], [B])
    assert not older._ending.is_set() and connections.of(A) is older


def test_connections_of_older_versions_have_a_limit(connections: StandingConnections) -> None:
    connections.keep([A])
    older = [
        connections.of(Mount("old", f"http://127.0.0.1:9/{number}")) for number in range(MAX_SPARE_CONNECTIONS + 3)
    ]
    connections.change([], [B])
    assert [one._ending.is_set() for one in older[:4]] == [True, True, True, False]
    assert not connections.of(A)._ending.is_set()


def test_keep_ends_all_other_mounts(connections: StandingConnections) -> None:
    connections.keep([A, B])
    first = connections.of(A)
    connections.keep([B])
    assert first._ending.is_set()
