"""Whether credentials are still good: keys, sessions and clients of people, the operator, other processes and machines.

Sources: ACCESS section 2; issue 48 item 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.access.credentials import names
from patchbay.access.credentials import validity as validity_module
from patchbay.access.credentials.validity import Validity
from patchbay.access.keys import PersonalKeys
from patchbay.access.oauth.clients import Client
from patchbay.access.operator_token import OperatorToken
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Person
from patchbay.access.principals import LOCAL, OPERATOR, SCHEDULE_IDS, Principal
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.stores import open_store
from patchbay.stores.sqlite import SqliteStore
from patchbay.topics import ACCESS_ENDED, PEOPLE
from tests.waiting import BOUND, until

CLIENT = Client(id="registered.x", name="C", redirect_uris=("https://client.example/",))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(SqliteStore(tmp_path)) as found:
        yield found


@pytest.fixture
def validity(store: Store, tmp_path: Path) -> Iterator[Validity]:
    with closing(Validity(store, OperatorToken(tmp_path))) as found:
        yield found


@pytest.fixture
def accounts(store: Store, tmp_path: Path) -> Accounts:
    return Accounts(Settings(data=tmp_path), store.journal, PersonalKeys(store))


def expect_end(validity: Validity, sender: Principal) -> None:
    until(lambda: not validity.is_good(sender), "the credential ends")


def make_person(accounts: Accounts, name: str = "ann") -> Person:
    made = accounts.people.create(name, accounts.people.generation(name), password="hash")
    assert made is not None
    return made


def sign_in_client(accounts: Accounts, person: Person) -> Principal:
    """Let a client sign in for a person; return the principal of its requests."""
    issued = accounts.tokens.redeem(accounts.codes.make(person, CLIENT, None, ("call",), "https://hub", "challenge"))
    found = accounts.tokens.verify(issued.access)
    assert found is not None
    return Principal(person.name, credential=names.name_sign_in(found.family.account, found.family.id))


def sign_in_browser(accounts: Accounts, person: Person) -> Principal:
    """Begin a session in a browser; return the principal of its requests."""
    accounts.sessions.begin(person.name, "tests")
    found = accounts.people.find(person.name)
    assert found is not None
    return Principal(person.name, credential=names.name_session(found.id, found.sessions[-1].id))


def test_the_caller_of_a_personal_hub_and_a_schedule_have_no_credentials_that_end(validity: Validity) -> None:
    assert validity.is_good(LOCAL)
    assert validity.is_good(Principal(f"{SCHEDULE_IDS}desk.say"))
    assert validity.is_good(Principal("ann", issuer="https://issuer.example"))


def test_a_key_ends_when_it_is_revoked_and_a_new_one_of_its_name_is_another(validity: Validity) -> None:
    old = validity.keys.find_principal(validity.keys.make("ann"))
    assert old is not None and validity.is_good(old)
    validity.keys.revoke("ann")
    new = validity.keys.find_principal(validity.keys.make("ann", scopes=["see:*"]))
    assert new is not None and new.id == old.id and new.credential != old.credential
    expect_end(validity, old)
    assert validity.is_good(new)


def test_what_an_earlier_version_stored_of_a_key_ends_with_a_key_of_other_scopes(validity: Validity) -> None:
    """Its record has no name of a credential, and the rights of the old key."""
    validity.keys.make("ann")
    whole, narrow = Principal("key:ann"), Principal("key:ann", scopes=frozenset({"see:*"}))
    assert validity.is_good(whole)
    assert not validity.is_good(narrow)
    validity.keys.revoke("ann")
    expect_end(validity, whole)
    validity.keys.make("ann", scopes=["see:*"])
    until(lambda: validity.is_good(narrow), "the new key is known")
    assert not validity.is_good(whole)


def test_a_key_ends_when_it_expires(store: Store, tmp_path: Path) -> None:
    with closing(Validity(store, OperatorToken(tmp_path))) as validity:
        validity.keys.now = lambda: 100.0
        sender = validity.keys.find_principal(validity.keys.make("ann", expires=200.0))
        assert sender is not None and validity.is_good(sender)
        validity.keys.now = lambda: 201.0
        expect_end(validity, sender)


def test_a_stream_with_a_token_of_an_outside_issuer_is_woken_at_its_end(validity: Validity, store: Store) -> None:
    """Nothing else ends then: a call that began before goes on."""
    now = store.now()
    late, soon = (Principal("ann", "https://id.example", credential=names.name_token(now + one)) for one in (9999, 1))
    with store.bus.subscribe([ACCESS_ENDED]) as mailbox:
        assert not validity.has_expired(late) and not validity.has_expired(soon)
        until(lambda: mailbox.get(BOUND) is not None and validity.has_expired(soon), "the notice of the end")
        assert not validity.has_expired(late)
    assert validity.is_good(soon)
    assert not validity.has_expired(Principal("key:ann", credential="key:x"))


class Unsearched(list[float]):
    """Ends of tokens that no reader may search from the first to the last."""

    def __contains__(self, end: object) -> bool:
        raise AssertionError("each envelope of a room searches all ends of tokens")


def test_the_soonest_ends_of_many_tokens_are_kept_found_quickly_and_forgotten_together(
    validity: Validity, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validity_module, "MAX_ANSWERS", 3)
    validity.close()  # the thread that wakes the streams does not start
    validity._token_ends = Unsearched()
    now = 100.0
    monkeypatch.setattr(store.journal, "now", lambda: now)
    for end in (9999.0, 9998.0, 9997.0, 150.0, 160.0, 150.0):
        assert not validity.has_expired(Principal("ann", "https://id.example", credential=names.name_token(end)))
    assert list(validity._token_ends) == [150.0, 160.0, 9997.0]
    now = 160.0
    assert validity._forget_ended_tokens()
    assert list(validity._token_ends) == [9997.0] and not validity._forget_ended_tokens()


def test_sessions_and_clients_of_a_person_end_with_the_account(validity: Validity, accounts: Accounts) -> None:
    person = make_person(accounts)
    browser, client = sign_in_browser(accounts, person), sign_in_client(accounts, person)
    assert validity.is_good(browser) and validity.is_good(client)
    accounts.people.remove("ann")
    expect_end(validity, browser)
    expect_end(validity, client)
    again = sign_in_client(accounts, make_person(accounts))
    assert validity.is_good(again) and not validity.is_good(client)
    assert not validity.is_good(browser)


def test_a_client_that_its_person_ended_ends_alone(validity: Validity, accounts: Accounts) -> None:
    person = make_person(accounts)
    browser, client, other = sign_in_browser(accounts, person), sign_in_client(accounts, person), None
    other = sign_in_client(accounts, accounts.people.find("ann") or person)
    accounts.tokens.end("ann", client.credential.rpartition(".")[2])
    expect_end(validity, client)
    assert validity.is_good(browser) and validity.is_good(other)


def test_a_session_that_was_ended_ends_alone(validity: Validity, accounts: Accounts) -> None:
    person = make_person(accounts)
    first, second = sign_in_browser(accounts, person), sign_in_browser(accounts, person)
    accounts.sessions.end("ann", first.credential.rpartition(".")[2])
    expect_end(validity, first)
    assert validity.is_good(second)


def test_a_new_token_of_the_operator_ends_the_old_one_and_its_sessions(store: Store, tmp_path: Path) -> None:
    operator = OperatorToken(tmp_path)
    operator.ensure()
    with closing(Validity(store, operator)) as validity:
        by_token = Principal(OPERATOR.subject, credential=names.name_operator(operator.generation()))
        by_session = Principal(OPERATOR.subject, credential=names.name_operator(operator.generation(), "nonce"))
        assert validity.is_good(by_token) and validity.is_good(by_session)
        OperatorToken(tmp_path).renew()
        expect_end(validity, by_token)
        expect_end(validity, by_session)
        now = Principal(OPERATOR.subject, credential=names.name_operator(operator.generation()))
        assert validity.is_good(now)


def test_an_end_in_another_process_wakes_the_streams_of_this_one(
    validity: Validity, store: Store, tmp_path: Path
) -> None:
    sender = validity.keys.find_principal(validity.keys.make("ann"))
    assert sender is not None and validity.is_good(sender)
    with store.bus.subscribe([ACCESS_ENDED]) as mailbox, closing(SqliteStore(tmp_path)) as elsewhere:
        with closing(Validity(elsewhere, OperatorToken(tmp_path))) as other:
            other.keys.revoke("ann")
        until(lambda: mailbox.get(BOUND) is not None and not validity.is_good(sender), "the notice of the end")


def test_an_account_that_cannot_be_read_counts_as_ended(validity: Validity, accounts: Accounts, store: Store) -> None:
    browser = sign_in_browser(accounts, make_person(accounts))
    assert validity.is_good(browser)
    store.journal.append(PEOPLE + "ann", b"no record")
    names.note_end(store.journal, "a test")
    expect_end(validity, browser)


def test_a_machine_hears_of_the_ended_token_of_the_operator_of_another(database: str, tmp_path: Path) -> None:
    """Each machine has a token of its own; a webhook of one machine's operator may be delivered by another."""
    tokens = [OperatorToken(tmp_path / name) for name in ("one", "two")]
    for token in tokens:
        token.ensure()
    stores = [open_store(database, tmp_path / name) for name in ("one", "two")]
    with closing(stores[0]), closing(stores[1]):
        here, there = Validity(stores[0], tokens[0]), Validity(stores[1], tokens[1])
        with closing(here), closing(there):
            here.watch()
            sender = Principal(OPERATOR.subject, credential=names.name_operator(tokens[0].generation()))
            assert here.is_good(sender) and there.is_good(sender)
            tokens[0].renew()
            expect_end(there, sender)
            expect_end(here, sender)
            assert there.is_good(Principal("operator", credential=names.name_operator(tokens[1].generation())))
