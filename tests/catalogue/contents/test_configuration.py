"""Which contents the configuration reaches, now and in the past, and which it does not."""

from __future__ import annotations

from patchbay.catalogue.contents.configuration import CONFIGURATION_PREFIXES, MOVES_PER_READ, ConfigurationContents
from patchbay.cid import cid_of
from patchbay.store import Store


def test_names_of_the_configuration_describe_the_hub_and_those_of_stored_values_do_not() -> None:
    for name in (
        "servers/echo",
        "variables/mcps",
        "templates/mcp/meta.html",
        "served/echo",
        "revoked/x",
        "root",
        "boot",
    ):
        assert name.startswith(CONFIGURATION_PREFIXES)
    for name in ("state/echo/key", "dropins/echo", "lists/echo", "server", ""):
        assert not name.startswith(CONFIGURATION_PREFIXES)


def test_a_content_is_reached_from_a_name_over_any_number_of_steps_and_stays_so(store: Store) -> None:
    leaf = store.blobs.put(b"leaf")
    middle = store.blobs.put(f"see {leaf}".encode())
    top = store.blobs.put(f'{{"cid": "{middle}"}}'.encode())
    alone = store.blobs.put(b"stored")
    configured = ConfigurationContents(store)
    assert not any(configured.reaches(cid) for cid in (leaf, middle, top, alone))
    store.names.move({"variables/a": top, "state/a/b": alone}, "me", "in")
    assert all(configured.reaches(cid) for cid in (leaf, middle, top))
    store.names.move({"variables/a": None}, "me", "out")
    assert all(configured.reaches(cid) for cid in (leaf, middle, top))
    assert all(ConfigurationContents(store).reaches(cid) for cid in (leaf, middle, top))
    assert not configured.reaches(alone)


def test_a_cid_inside_a_stored_value_is_not_reached(store: Store) -> None:
    secret = store.blobs.put(b"secret")
    store.names.move({"state/a/b": store.blobs.put(secret.encode())}, "me", "in")
    assert not ConfigurationContents(store).reaches(secret)


def test_cycles_lost_contents_and_long_histories_are_read_to_their_end(store: Store) -> None:
    lost = cid_of(b"never kept")
    first = store.blobs.put(lost.encode())
    cids = [store.blobs.put(f"{number} {first}".encode()) for number in range(MOVES_PER_READ + 5)]
    for cid in cids:
        store.names.move({"variables/a": cid}, "me", "again")
    configured = ConfigurationContents(store)
    assert configured.reaches(cids[0]) and configured.reaches(first) and configured.reaches(lost)
    assert not configured.reaches(cid_of(b"another"))


def test_an_identity_cid_is_reached_by_itself(store: Store) -> None:
    assert ConfigurationContents(store).reaches("bafkqaatine")
