"""Accounts: invitations that work once, removal that counts everywhere, names, limits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from patchbay.access.keys import PersonalKeys
from patchbay.access.people import people
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.invitations import Invitations, WrongInvitation
from patchbay.access.people.people import People, UnknownPerson, parse_name
from patchbay.errors import InvalidParams
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores.sqlite import SqliteStore

KEY = b"k" * 32


def key_of(link: str) -> str:
    return link.partition("=")[2]


@pytest.mark.parametrize("text", ["ann", "ann@example.org", "a", "a1-b_c.d+e", "ANN", " ann ", "x" * 64])
def test_a_name_is_lower_case_without_spaces_around_it(text: str) -> None:
    assert parse_name(text) == text.strip().lower()


@pytest.mark.parametrize(
    "text",
    ["", " ", "-ann", "ann.", "x" * 65, "a b", "a/b", "ann\n", "a\0", "änn", "key:ann", "*", "local", "Operator"],
)
def test_other_texts_are_not_names(text: str) -> None:
    if text == "ann\n":
        assert parse_name(text) == "ann"
        return
    with pytest.raises(InvalidParams):
        parse_name(text)


def test_an_invitation_makes_one_account(store: Store) -> None:
    known = People(store.journal)
    invitations = Invitations(known, KEY)
    links = [key_of(invitations.make("ann")) for _ in range(2)]
    invitation = invitations.read(links[0])
    assert (invitation.name, invitation.has_account) == ("ann", False)
    person = known.create("ann", invitation.generation, password="hash")
    assert person is not None and known.find("ann") == person
    for link in links:
        with pytest.raises(WrongInvitation):
            invitations.read(link)
    assert known.create("ann", invitation.generation, password="other") is None


def test_two_uses_of_an_invitation_at_once_make_one_account(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path) for _ in range(4)]
    made = []
    start = threading.Barrier(len(stores))

    def create(store: Store) -> None:
        start.wait()
        made.append(People(store.journal).create("ann", "", password="hash"))

    threads = [threading.Thread(target=create, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(person is not None for person in made) == 1
    for store in stores:
        store.close()


def test_an_invitation_of_an_account_replaces_its_credentials_and_ends_its_sessions(store: Store) -> None:
    known = People(store.journal)
    invitations = Invitations(known, KEY)
    first = known.create("ann", "", password="old")
    assert first is not None
    invitation = invitations.read(key_of(invitations.make("ann")))
    assert invitation.has_account
    second = known.create("ann", invitation.generation, password="new")
    assert second is not None and (second.id, second.password, second.sessions) == (first.id, "new", ())


def test_a_removed_account_is_gone_with_its_invitations(store: Store) -> None:
    known = People(store.journal)
    invitations = Invitations(known, KEY)
    early = key_of(invitations.make("ann"))
    first = known.create("ann", "", password="hash")
    late = key_of(invitations.make("ann"))
    assert first is not None and known.remove("ann") and not known.remove("ann")
    assert known.find("ann") is None and known.list() == []
    for link in (early, late):
        with pytest.raises(WrongInvitation):
            invitations.read(link)
    with pytest.raises(UnknownPerson):
        known.change("ann", lambda person: person)
    again = known.create("ann", invitations.read(key_of(invitations.make("ann"))).generation, password="hash")
    assert again is not None and again.id != first.id


def test_removing_a_name_without_an_account_withdraws_its_invitation(store: Store) -> None:
    known = People(store.journal)
    invitations = Invitations(known, KEY)
    link = key_of(invitations.make("ann"))
    assert not known.remove("ann")
    with pytest.raises(WrongInvitation):
        invitations.read(link)


@pytest.mark.parametrize("text", ["", "x", "WyJhbm4iLCIiXQ.awMv1g.BD4rfZqSN", "x" * 2000])
def test_another_text_is_not_an_invitation(store: Store, text: str) -> None:
    with pytest.raises(WrongInvitation):
        Invitations(People(store.journal), KEY).read(text)


def test_an_invitation_of_another_hub_is_refused(store: Store) -> None:
    known = People(store.journal)
    with pytest.raises(WrongInvitation):
        Invitations(known, KEY).read(key_of(Invitations(known, b"x" * 32).make("ann")))


def test_there_is_a_limit_on_accounts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MAX_PEOPLE", 2)
    known = People(store.journal)
    assert [known.create(name, "", password="h") is not None for name in ("ann", "ben", "eva")] == [True, True, False]
    known.remove("ben")
    assert known.create("eva", "", password="h") is not None


def test_accounts_are_stored_and_are_not_content(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    store = SqliteStore(tmp_path)
    accounts = Accounts(settings, store.journal, PersonalKeys(store))
    accounts.people.create("ann", "", password=accounts.passwords.hash("correct horse battery", "ann"))
    assert store.blobs.count() == 0 and store.names.all() == {}
    store.close()
    store = SqliteStore(tmp_path)
    person = Accounts(settings, store.journal, PersonalKeys(store)).people.find("ann")
    assert person is not None and accounts.passwords.fits("correct horse battery", person.password)
    store.close()
