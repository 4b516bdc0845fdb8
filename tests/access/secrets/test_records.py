"""Secrets in the store: sealed, bound to servers, listed without values, unreadable with another key. Issue 56, 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.access.secrets.names import MAX_NAME_CHARACTERS, MAX_VALUE_BYTES, SecretRefused
from patchbay.access.secrets.records import MAX_SECRETS, MAX_SERVERS, Secrets, UnknownSecret
from patchbay.errors import InvalidParams
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SECRET_ENTRIES, SECRET_NAMES, SECRETS

KEY = b"k" * 32


def test_a_secret_is_found_by_its_servers_only_and_a_new_value_keeps_them() -> None:
    secrets = Secrets(MemoryStore(), KEY)
    assert secrets.find("TOKEN", "github") is None
    secrets.put("TOKEN", "one", "local", ["github", "tracker"])
    secrets.put("OPEN", "for all", "local")
    assert secrets.find("OPEN", "anything") == "for all"
    assert [secrets.find("TOKEN", server) for server in ("github", "tracker")] == ["one", "one"]
    with pytest.raises(SecretRefused, match="is for other servers"):
        secrets.find("TOKEN", "stranger")
    secrets.put("TOKEN", "two", "local")
    assert secrets.find("TOKEN", "github") == "two"
    with pytest.raises(SecretRefused):
        secrets.find("TOKEN", "stranger")
    secrets.put("TOKEN", "two", "local", [])
    assert secrets.find("TOKEN", "stranger") == "two"


def test_a_secret_is_sealed_and_its_earlier_values_are_deleted() -> None:
    store = MemoryStore()
    secrets = Secrets(store, KEY)
    for value in ("first-value", "second-value"):
        secrets.put("TOKEN", value, "local")
    (entry,) = store.journal.read(SECRETS + "TOKEN")
    every = entry.data + b"".join(
        one.data for topic in (SECRET_NAMES, SECRET_ENTRIES + "TOKEN") for one in store.journal.read(topic)
    )
    assert b"first-value" not in every
    assert b"second-value" not in every
    assert b"TOKEN" in every


def test_a_hub_with_another_key_names_the_secrets_that_it_cannot_read() -> None:
    store = MemoryStore()
    Secrets(store, KEY).put("TOKEN", "value", "local", ["github"])
    other = Secrets(store, b"o" * 32)
    (listed,) = other.all()
    assert (listed.entry.name, listed.is_readable) == ("TOKEN", False)
    with pytest.raises(SecretRefused, match="stored with another key of this hub") as refused:
        other.find("TOKEN", "github")
    assert "patchbay secret set TOKEN" in refused.value.message
    other.put("TOKEN", "new", "local")
    assert other.find("TOKEN", "github") == "new"


def test_an_entry_that_was_changed_in_the_store_opens_no_secret_to_another_server() -> None:
    store = MemoryStore()
    secrets = Secrets(store, KEY)
    secrets.put("TOKEN", "value", "local", ["github"])
    (newest,) = store.journal.tail(SECRET_ENTRIES + "TOKEN", 1)
    store.journal.append(SECRET_ENTRIES + "TOKEN", newest.data.replace(b'"github"', b'"stranger"'))
    with pytest.raises(SecretRefused):
        secrets.find("TOKEN", "stranger")
    secrets.put("TOKEN", "new value", "local")
    with pytest.raises(SecretRefused):
        secrets.find("TOKEN", "stranger")


def test_the_advice_for_a_refused_server_adds_it_and_keeps_the_value_and_the_other_servers() -> None:
    store = MemoryStore()
    secrets = Secrets(store, KEY)
    made = secrets.put("TOKEN", "value", "local", ["github"])
    with pytest.raises(SecretRefused, match="`patchbay secret allow TOKEN tracker`") as refused:
        secrets.find("TOKEN", "tracker")
    assert "github" not in refused.value.message
    assert secrets.allow("TOKEN", ["tracker"]).servers == ("github", "tracker")
    assert [secrets.find("TOKEN", server) for server in ("github", "tracker")] == ["value", "value"]
    assert secrets.all()[0].entry.changed == made.changed
    with pytest.raises(SecretRefused):
        secrets.find("TOKEN", "stranger")
    with pytest.raises(InvalidParams, match="another key"):
        Secrets(store, b"o" * 32).allow("TOKEN", ["stranger"])
    with pytest.raises(InvalidParams, match="at most"):
        secrets.allow("TOKEN", [f"server{number}" for number in range(MAX_SERVERS)])
    with pytest.raises(UnknownSecret):
        secrets.allow("ABSENT", ["github"])


def test_a_secret_for_all_servers_stays_so_when_a_server_is_added() -> None:
    secrets = Secrets(MemoryStore(), KEY)
    secrets.put("TOKEN", "value", "local")
    assert secrets.allow("TOKEN", ["github"]).servers == ()
    assert secrets.find("TOKEN", "tracker") == "value"


def test_a_removed_secret_leaves_nothing_and_an_unknown_one_cannot_be_removed_or_rotated() -> None:
    store = MemoryStore()
    secrets = Secrets(store, KEY)
    secrets.put("TOKEN", "value", "local")
    secrets.note_use("TOKEN", "github")
    secrets.remove("TOKEN")
    assert secrets.find("TOKEN", "github") is None
    assert secrets.all() == []
    assert not list(store.journal.read(SECRETS + "TOKEN"))
    assert not list(store.journal.read(SECRET_ENTRIES + "TOKEN"))
    with pytest.raises(UnknownSecret, match="patchbay secret list"):
        secrets.remove("TOKEN")
    with pytest.raises(UnknownSecret):
        secrets.put("TOKEN", "value", "local", is_known=True)


def test_a_rotation_needs_another_value() -> None:
    secrets = Secrets(MemoryStore(), KEY)
    secrets.put("TOKEN", "value", "local")
    with pytest.raises(InvalidParams, match="the value that TOKEN has already"):
        secrets.put("TOKEN", "value", "local", is_known=True)
    secrets.put("TOKEN", "other", "local", is_known=True)
    assert secrets.find("TOKEN", "any") == "other"


def test_the_last_use_by_each_server_is_listed() -> None:
    secrets = Secrets(MemoryStore(), KEY)
    secrets.put("TOKEN", "value", "local")
    assert secrets.all()[0].last_use is None
    secrets.note_use("TOKEN", "github")
    secrets.note_use("TOKEN", "tracker")
    (listed,) = secrets.all()
    assert set(listed.uses) == {"github", "tracker"}
    assert listed.last_use == max(listed.uses.values())


@pytest.mark.parametrize(
    "name", ["", "1A", "A-B", "A/B", "../A", "A B", "PATH", "XDG_DATA_HOME", "PATCHBAY_KEY", "https_proxy", "A" * 129]
)
def test_a_name_that_no_configuration_can_hold_or_that_the_hub_reads_itself_is_refused(name: str) -> None:
    with pytest.raises(InvalidParams):
        Secrets(MemoryStore(), KEY).put(name, "value", "local")


@pytest.mark.parametrize("value", ["", "nul\0", "\x1b[31m", "\ud800", "x" * (MAX_VALUE_BYTES + 1)])
def test_a_value_that_is_no_text_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        Secrets(MemoryStore(), KEY).put("TOKEN", value, "local")
    assert not value or value not in refused.value.message


def test_the_number_of_secrets_and_of_their_servers_is_bounded() -> None:
    secrets = Secrets(MemoryStore(), KEY)
    servers = [f"a-server-with-a-long-name-{number}" for number in range(MAX_SERVERS)]
    for number in range(MAX_SECRETS):
        secrets.put(f"TOKEN_{number}".ljust(MAX_NAME_CHARACTERS, "X"), "value", "a person " * 20, servers)
    assert {one.entry.servers for one in secrets.all()} == {tuple(sorted(servers))}
    with pytest.raises(InvalidParams, match="remove one first"):
        secrets.put("ANOTHER", "value", "local")
    known = secrets.all()[0].entry.name
    secrets.put(known, "another value", "local")
    with pytest.raises(InvalidParams, match="at most"):
        secrets.put(known, "value", "local", [f"server{number}" for number in range(MAX_SERVERS + 1)])


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=400))
def test_every_text_comes_back_as_it_was_stored(value: str) -> None:
    secrets = Secrets(MemoryStore(), KEY)
    secrets.put("TOKEN", value, "local")
    assert secrets.find("TOKEN", "any") == value


def test_another_process_on_the_same_store_sees_a_change_at_once(tmp_path: Path) -> None:
    first, second = open_store("sqlite", tmp_path), open_store("sqlite", tmp_path)
    try:
        one, two = Secrets(first, KEY), Secrets(second, KEY)
        one.put("TOKEN", "value", "local")
        assert two.find("TOKEN", "any") == "value"
        two.put("TOKEN", "other", "local")
        assert one.find("TOKEN", "any") == "other"
        two.remove("TOKEN")
        assert one.find("TOKEN", "any") is None
    finally:
        first.close()
        second.close()


def test_a_secret_that_another_process_stores_while_it_is_removed_keeps_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    secrets, other = Secrets(store, KEY), Secrets(store, KEY)
    secrets.put("TOKEN", "value", "local")
    remove, stored = store.journal.remove, list[str]()

    def store_again_first(topic: str, before: int) -> None:
        if not stored:
            stored.append(topic)
            other.put("TOKEN", "new value", "local")
        remove(topic, before)

    monkeypatch.setattr(store.journal, "remove", store_again_first)
    secrets.remove("TOKEN")
    assert stored
    assert secrets.find("TOKEN", "any") == "new value"
    assert [one.entry.name for one in secrets.all()] == ["TOKEN"]
