"""Personal keys: made, narrowed, expired, revoked, and never stored.

Sources: ACCESS section 2; issue 16 item 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchbay.access import keys as keys_module
from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.keys import PREFIX, KeyExists, PersonalKeys, UnknownKey, parse_expiry
from patchbay.access.principals import Principal
from patchbay.errors import InvalidParams
from patchbay.stores.memory import MemoryStore
from patchbay.stores.sqlite import SqliteStore
from patchbay.topics import KEYS
from tests.waiting import until


def sent(token: str, scheme: str = "Bearer") -> Credentials:
    return Credentials("POST", "http://localhost/mcp", {"authorization": f"{scheme} {token}"})


def test_a_key_has_256_random_bits_a_recognisable_prefix_and_is_stored_as_its_hash() -> None:
    store = MemoryStore()
    keys = PersonalKeys(store)
    first, second = keys.make("ann"), keys.make("ben")
    assert first != second
    assert all(len(token) == len(PREFIX) + 43 and token.startswith(PREFIX) for token in (first, second))
    entries = b"".join(entry.data for entry in store.journal.read(KEYS))
    assert first[len(PREFIX) :].encode() not in entries
    assert keys.all()[0].digest.encode() in entries


def test_a_key_proves_the_principal_of_its_name() -> None:
    keys = PersonalKeys(MemoryStore())
    token = keys.make("ann", scopes=["call:notes.*", "read"])
    found = keys.authenticate(sent(token))
    assert found == Principal("key:ann", name="ann", scopes=frozenset({"call:notes.*", "read"}))
    assert keys.authenticate(sent(keys.make("ben"))) == Principal("key:ben", name="ben")


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "x", lambda t: PREFIX, lambda t: t.swapcase()])
def test_a_changed_key_proves_nothing(change: Any) -> None:
    keys = PersonalKeys(MemoryStore())
    wrong = change(keys.make("ann"))
    if wrong.startswith(PREFIX):
        with pytest.raises(Unauthorized) as caught:
            keys.authenticate(sent(wrong))
        assert 'error="invalid_token"' in caught.value.challenge
        assert wrong not in caught.value.message
    else:
        assert keys.authenticate(sent(wrong)) is None


def test_other_credentials_are_left_to_other_schemes() -> None:
    keys = PersonalKeys(MemoryStore())
    token = keys.make("ann")
    assert keys.authenticate(Credentials("GET", "http://localhost/", {})) is None
    assert keys.authenticate(sent("patchbay_something")) is None
    assert keys.authenticate(sent(token, "Basic")) is None


def test_a_key_ends_when_it_expires() -> None:
    now = [1000.0]
    keys = PersonalKeys(MemoryStore(), clock=lambda: now[0])
    token = keys.make("ann", expires=1060.0)
    assert keys.authenticate(sent(token)) is not None
    principal = Principal("key:ann")
    assert keys.is_current(principal)
    now[0] = 1060.0
    with pytest.raises(Unauthorized):
        keys.authenticate(sent(token))
    assert not keys.is_current(principal)
    assert keys.all()[0].is_expired(now[0])
    assert keys.authenticate(sent(keys.make("ann"))) is not None, "an expired name is free again"


def test_a_revoked_key_works_no_longer_and_its_name_is_free_again() -> None:
    keys = PersonalKeys(MemoryStore())
    old = keys.make("ann")
    with pytest.raises(KeyExists):
        keys.make("ann")
    keys.revoke("ann")
    with pytest.raises(Unauthorized):
        keys.authenticate(sent(old))
    assert keys.all() == []
    with pytest.raises(UnknownKey):
        keys.revoke("ann")
    new = keys.make("ann")
    assert keys.authenticate(sent(new)) == Principal("key:ann", name="ann")
    with pytest.raises(Unauthorized):
        keys.authenticate(sent(old))


def test_another_process_has_a_new_key_and_loses_a_revoked_one(tmp_path: Path) -> None:
    """The test waits for the condition; CHECK_SECONDS says that this takes at most half a second."""
    mine, theirs = SqliteStore(tmp_path), SqliteStore(tmp_path)
    one, other = PersonalKeys(mine), PersonalKeys(theirs)
    assert other.all() == []
    token = one.make("ann")

    def works() -> bool:
        try:
            return other.authenticate(sent(token)) is not None
        except Unauthorized:
            return False

    until(works, "the key works in the other process")
    one.revoke("ann")
    until(lambda: not works(), "the key is refused in the other process")
    assert not other.is_current(Principal("key:ann"))
    mine.close()
    theirs.close()


def test_a_key_that_another_process_has_just_made_counts_as_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks about a credential ends something for good: a webhook, a job, a stream."""
    monkeypatch.setattr(keys_module, "CHECK_SECONDS", 3600.0)
    store = MemoryStore()
    one, other = PersonalKeys(store), PersonalKeys(store)
    assert not other.is_current(Principal("key:ann"))  # the other process has looked
    sender = one.authenticate(sent(one.make("ann")))
    assert sender is not None and other.is_current(sender)


def test_two_processes_make_keys_at_once_without_losing_one(tmp_path: Path) -> None:
    mine, theirs = SqliteStore(tmp_path), SqliteStore(tmp_path)
    one, other = PersonalKeys(mine), PersonalKeys(theirs)
    one.make("ann")
    with pytest.raises(KeyExists):
        other.make("ann")
    other.make("ben")
    one.make("carl")
    assert [key.name for key in other.all()] == [key.name for key in one.all()] == ["ann", "ben", "carl"]
    mine.close()
    theirs.close()


def test_the_last_use_of_a_key_is_recorded() -> None:
    keys = PersonalKeys(MemoryStore())
    token = keys.make("ann")
    assert keys.all()[0].used is None
    keys.authenticate(sent(token))
    until(lambda: keys.all()[0].used is not None, "the use is recorded")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "x" * 65, "*", "key:x"])
def test_a_wrong_name_makes_no_key(name: str) -> None:
    keys = PersonalKeys(MemoryStore())
    with pytest.raises(InvalidParams, match="1 to 64"):
        keys.make(name)
    assert keys.all() == []


@pytest.mark.parametrize("scope", ["", "operate", "write", "call:", "mcp"])
def test_a_wrong_grant_makes_no_key(scope: str) -> None:
    keys = PersonalKeys(MemoryStore())
    with pytest.raises(InvalidParams, match="expected grants such as"):
        keys.make("ann", None, [scope])
    assert keys.all() == []


def test_a_key_narrowed_to_nothing_may_do_nothing() -> None:
    keys = PersonalKeys(MemoryStore())
    assert keys.authenticate(sent(keys.make("ann", None, []))) == Principal("key:ann", name="ann", scopes=frozenset())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((None, None), ("90d", 1000 + 90 * 86400), ("12h", 1000 + 43200), ("1s", 1001), ("2w", 1000 + 14 * 86400)),
        *(("1970-01-02", 86400.0), ("1970-01-02T00:00:00+01:00", 82800.0)),
    ],
)
def test_when_a_key_expires(text: str | None, expected: float | None) -> None:
    assert parse_expiry(text, 1000.0) == expected


@pytest.mark.parametrize("text", ["", "d", "soon", "-1d", "1y", "1.5d", "99999999d", "2027-13-01"])
def test_a_wrong_expiry_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams, match="expected a time such as 90d"):
        parse_expiry(text, 1000.0)


def test_a_key_does_not_begin_expired() -> None:
    with pytest.raises(InvalidParams, match="in the past"):
        PersonalKeys(MemoryStore()).make("ann", expires=1.0)


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ("call:git/git_log", "'git/git_log' can never match.* write git.git_log"),
        ("see:/mcp/notes", "'/mcp/notes' can never match.* write notes"),
        ("read:notes:plan", "'notes:plan' can never match"),
        ("call:.search", "expected a pattern"),
        ("call:notes.", "expected a pattern"),
    ],
)
def test_a_grant_that_can_never_match_makes_no_key(scope: str, sentence: str) -> None:
    keys = PersonalKeys(MemoryStore())
    with pytest.raises(InvalidParams, match=sentence):
        keys.make("ann", None, [scope])
    assert keys.all() == []
