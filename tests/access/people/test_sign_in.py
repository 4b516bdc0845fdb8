"""Passwords, the limit on wrong ones, sessions, and requests that do not come from the person."""

from __future__ import annotations

import pytest

from patchbay.access.authentication import Credentials
from patchbay.access.people import people, sign_in_throttle
from patchbay.access.people.passkeys import Passkeys
from patchbay.access.people.passwords import Passwords
from patchbay.access.people.people import People, Person, UnknownPerson
from patchbay.access.people.sessions import PersonSessions, SessionScheme
from patchbay.access.people.sign_in_throttle import (
    MAX_SLOWED_OF_NAME,
    MAX_WRONG_OF_NAME,
    MAX_WRONG_PASSWORDS,
    SignInThrottle,
    TooManyWrongPasswords,
)
from patchbay.access.session_cookies import session_cookie_name
from patchbay.errors import InvalidParams
from patchbay.store import Store

COOKIE = session_cookie_name(8000, False)


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


URL = "http://hub.example:8000/mcp"


def test_a_password_is_kept_as_an_argon2id_hash() -> None:
    passwords = Passwords()
    known = passwords.hash("correct horse battery", "ann")
    assert known.startswith("$argon2id$") and "horse" not in known
    assert passwords.fits("correct horse battery", known)
    assert not passwords.fits("correct horse batterx", known)
    assert not passwords.fits("no account", "") and not passwords.fits("", "") and not passwords.fits("x", "damaged")
    assert not passwords.is_outdated(known)


def test_a_password_is_the_same_in_every_form_of_unicode() -> None:
    passwords = Passwords()
    assert passwords.fits("cafe\u0301 au lait noir", passwords.hash("caf\u00e9 au lait noir", "ann"))


@pytest.mark.parametrize("password", ["", "short", "x" * 257, "aaaaaaaaaaaaaaaa", "ann@example.org"])
def test_a_weak_password_is_refused(password: str) -> None:
    with pytest.raises(InvalidParams):
        Passwords().hash(password, "ann@example.org")


def test_wrong_passwords_from_one_address_do_not_stop_others() -> None:
    """A person is not locked out by wrong passwords from elsewhere."""
    clock = Clock()
    throttle = SignInThrottle(clock)
    for _ in range(MAX_WRONG_PASSWORDS):
        throttle.begin("ann", "192.0.2.1")
    with pytest.raises(TooManyWrongPasswords):
        throttle.begin("ann", "192.0.2.1")
    throttle.begin("ann", "192.0.2.2")
    throttle.begin("ben", "192.0.2.1")
    throttle.begin("ann", "192.0.2.1", known_browser="of ann")
    clock.now += sign_in_throttle.WRONG_PASSWORD_SECONDS
    throttle.begin("ann", "192.0.2.1")


def stop_name(throttle: SignInThrottle, name: str) -> int:
    """Try passwords from ever further networks until the name's limit; return the number of tries."""
    for number in range(10_000):
        try:
            throttle.begin(name, f"10.{number // 250}.{number % 250}.1")
        except TooManyWrongPasswords:
            return number
    raise AssertionError("no limit")


def test_wrong_passwords_of_twenty_addresses_for_one_name_do_not_stop_its_new_browsers() -> None:
    """Beyond the name's limit each network has one try; the right password gives it back."""
    clock = Clock()
    throttle = SignInThrottle(clock)
    strangers = [f"192.0.2.{number}" for number in range(MAX_WRONG_OF_NAME // MAX_WRONG_PASSWORDS)]
    for address in strangers * MAX_WRONG_PASSWORDS:
        throttle.begin("ann", address)
    for _ in range(3):
        throttle.begin("ann", "198.51.100.1")
        throttle.succeed("ann", "198.51.100.1")
    throttle.begin("ann", "203.0.113.1")
    for near in ("203.0.113.1", "203.0.113.2", "::ffff:203.0.113.3"):
        with pytest.raises(TooManyWrongPasswords):
            throttle.begin("ann", near)
    throttle.begin("ann", "2001:db8:1:1::1")
    with pytest.raises(TooManyWrongPasswords):
        throttle.begin("ann", "2001:db8:1:2::1")
    throttle.begin("ann", "2001:db8:2:1::1")
    clock.now += sign_in_throttle.WRONG_PASSWORD_SECONDS
    for _ in range(MAX_WRONG_PASSWORDS):
        throttle.begin("ann", "203.0.113.1")


def test_tries_of_hundreds_of_networks_for_one_name_stop_neither_other_names_nor_known_browsers() -> None:
    """The whole number of guesses of one password has a limit, which stops new browsers of this person."""
    clock = Clock()
    throttle = SignInThrottle(clock)
    assert stop_name(throttle, "ann") == MAX_SLOWED_OF_NAME
    with pytest.raises(TooManyWrongPasswords, match="for this name"):
        throttle.begin("ann", "198.51.100.1")
    throttle.begin("ben", "198.51.100.1")
    throttle.begin("ann", "198.51.100.1", known_browser="of ann")
    clock.now += sign_in_throttle.WRONG_PASSWORD_SECONDS
    throttle.begin("ann", "198.51.100.1")


def test_an_address_of_ipv4_counts_by_itself_where_it_is_written_as_one_of_ipv6() -> None:
    throttle = SignInThrottle(Clock())
    for _ in range(MAX_WRONG_PASSWORDS):
        throttle.begin("ann", "::ffff:192.0.2.1")
    throttle.begin("ann", "::ffff:192.0.2.2")
    with pytest.raises(TooManyWrongPasswords):
        throttle.begin("ann", "192.0.2.1")


def test_the_right_password_takes_back_its_own_try_alone() -> None:
    """A person who signs in often does not use up the limit of the name or of the address."""
    throttle = SignInThrottle(Clock())
    for _ in range(2 * MAX_WRONG_OF_NAME):
        throttle.begin("ann", "192.0.2.1")
        throttle.succeed("ann", "192.0.2.1")
    throttle.begin("ann", "192.0.2.1")


def test_a_known_browser_has_a_limit_too() -> None:
    throttle = SignInThrottle(Clock())
    for _ in range(MAX_WRONG_PASSWORDS):
        throttle.begin("ann", "192.0.2.1", known_browser="of ann")
    with pytest.raises(TooManyWrongPasswords):
        throttle.begin("ann", "192.0.2.9", known_browser="of ann")


def test_one_address_cannot_try_one_password_on_every_name() -> None:
    throttle = SignInThrottle(Clock())
    with pytest.raises(TooManyWrongPasswords):
        for number in range(sign_in_throttle.MAX_WRONG_OF_ADDRESS + 1):
            throttle.begin(f"name{number}", "2001:db8::1" if number % 2 else "2001:db8::2")


def test_a_right_password_makes_room_again() -> None:
    throttle = SignInThrottle(Clock())
    for _ in range(10 * MAX_WRONG_PASSWORDS):
        throttle.begin("ann", "192.0.2.1")
        throttle.succeed("ann", "192.0.2.1")


def test_the_memory_of_tries_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_throttle, "MAX_TRACKED", 10)
    throttle = SignInThrottle(Clock())
    for number in range(50):
        throttle.begin("ann", f"192.0.2.{number}")
    assert len(throttle._tries) <= 11


def test_refused_tries_of_further_addresses_are_not_remembered() -> None:
    throttle = SignInThrottle(Clock())
    stop_name(throttle, "ann")
    kept = len(throttle._tries)
    for number in range(1000):
        with pytest.raises(TooManyWrongPasswords):
            throttle.begin("ann", f"198.51.{number // 250}.{number % 250}")
    assert len(throttle._tries) == kept


def test_a_session_is_known_by_its_cookie_until_it_ends(store: Store) -> None:
    known = People(store.journal)
    known.create("ann", "", password="hash")
    sessions = PersonSessions(known, 8000)
    value = sessions.begin("ann", "a browser")
    found = sessions.find({COOKIE: value})
    assert found is not None and (found[0].name, found[1].browser) == ("ann", "a browser")
    person = known.find("ann")
    assert person is not None and value.rpartition(".")[2] not in person.model_dump_json()
    for wrong in (value + "x", value[:-1], "ann.", ".x", "ben." + value[4:], "x" * 300, ""):
        assert sessions.find({COOKIE: wrong}) is None
    assert sessions.find({session_cookie_name(8001, False): value}) is None
    assert sessions.end("ann", found[1].id) and not sessions.end("ann", found[1].id)
    assert sessions.find({COOKIE: value}) is None


def test_a_session_ends_when_its_time_is_over(store: Store) -> None:
    known = People(store.journal)
    known.create("ann", "", password="hash")
    sessions = PersonSessions(known, 8000)
    value = sessions.begin("ann", "a browser")

    def end_now(person: Person) -> Person:
        ended = tuple(each.model_copy(update={"until": each.at}) for each in person.sessions)
        return person.model_copy(update={"sessions": ended})

    known.change("ann", end_now)
    assert sessions.find({COOKIE: value}) is None


def test_a_removed_person_has_no_session(store: Store) -> None:
    known = People(store.journal)
    known.create("ann", "", password="hash")
    sessions = PersonSessions(known, 8000)
    value = sessions.begin("ann", "a browser")
    known.remove("ann")
    assert sessions.find({COOKIE: value}) is None
    with pytest.raises(UnknownPerson):
        sessions.begin("ann", "a browser")


def test_a_new_session_above_the_limit_ends_the_oldest(store: Store) -> None:
    known = People(store.journal)
    known.create("ann", "", password="hash")
    sessions = PersonSessions(known, 8000)
    values = [sessions.begin("ann", "a browser") for _ in range(people.MAX_SESSIONS + 1)]
    assert sessions.find({COOKIE: values[0]}) is None
    assert all(sessions.find({COOKIE: value}) is not None for value in values[1:])


def test_an_account_has_a_limited_number_of_passkeys(store: Store) -> None:
    """48.4"""
    known = People(store.journal)
    known.create("ann", "", password="hash")
    passkeys = Passkeys(known, store.journal, b"k" * 32)
    for number in range(people.MAX_PASSKEYS):
        passkeys.add("ann", people.Passkey(id=f"{number}", key="key", count=0, name="P", host="hub.example", at=1.0))
    with pytest.raises(InvalidParams, match=f"at most {people.MAX_PASSKEYS} passkeys: remove one first"):
        passkeys.add("ann", people.Passkey(id="more", key="key", count=0, name="P", host="hub.example", at=1.0))
    found = known.find("ann")
    assert found is not None and len(found.passkeys) == people.MAX_PASSKEYS


REQUESTS: list[tuple[str, dict[str, str], bool]] = [
    ("GET", {}, True),
    ("GET", {"sec-fetch-site": "same-origin"}, True),
    ("GET", {"sec-fetch-site": "none"}, True),
    ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),
    ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, False),
    ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, False),
    ("GET", {"origin": "http://hub.example:9000"}, False),
    ("POST", {}, False),
    ("POST", {"sec-fetch-site": "same-origin"}, True),
    ("POST", {"sec-fetch-site": "same-site"}, False),
    ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, False),
    ("POST", {"origin": "http://hub.example:8000"}, True),
    ("POST", {"origin": "http://hub.example:8001"}, False),
    ("POST", {"origin": "null"}, False),
    ("POST", {"origin": "http://hub.example:8000", "authorization": "Bearer x"}, False),
]


@pytest.mark.parametrize(("method", "headers", "counts"), REQUESTS, ids=str)
def test_the_cookie_counts_for_requests_of_the_hubs_own_pages(
    store: Store, method: str, headers: dict[str, str], counts: bool
) -> None:
    known = People(store.journal)
    known.create("ann", "", password="hash")
    sessions = PersonSessions(known, 8000)
    cookies = {COOKIE: sessions.begin("ann", "a browser")}
    principal = SessionScheme(sessions).authenticate(Credentials(method, URL, headers, cookies))
    assert (principal is not None and principal.id == "ann") == counts
