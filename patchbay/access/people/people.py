"""The accounts of people: one record for each, with its password, passkeys, sessions and signed-in clients.

A record holds hashes and public keys, never a secret itself. A removed person keeps an empty record, so that an older
invitation cannot bring the account back. The name of a person is the subject in grants; for a person who signs in with
an identity provider, issuer and subject are, and the name of the account is their digest.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

import orjson
from pydantic import BaseModel, ConfigDict

from patchbay.access.credentials.names import note_of_end
from patchbay.access.principals import Principal, is_reserved_id
from patchbay.access.upstreams.deletion import delete_record, forget_principal
from patchbay.coordination.records import Records, Write, write_records
from patchbay.errors import InvalidParams, StaleUpdate
from patchbay.store import Journal
from patchbay.topics import PEOPLE, PEOPLE_NAMES, SIGN_IN_TOKENS

MAX_PEOPLE = 10_000
"""Accounts of one hub, at most."""

MAX_SESSIONS, MAX_CLIENTS, MAX_PASSKEYS = 20, 50, 10
"""Entries of each kind in one account, at most; a new session or client ends the oldest."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._+@-]{0,62}[a-z0-9])?", re.ASCII)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Passkey(_Part):
    """A WebAuthn credential. `id` and `key` are base64url; `host` is the host name that it works for."""

    id: str
    key: str
    count: int
    name: str
    host: str
    at: float


class Session(_Part):
    """A browser in which the person is signed in. `id` is public, `hash` is the hash of the secret in its cookie.

    The others are for a sign-in with an identity provider: `sid` is the session there, `proved` the time at which the
    person last proved itself there, and `checked` the time at which the provider last said that the session goes on.
    """

    id: str
    hash: str
    browser: str
    at: float
    until: float
    sid: str = ""
    proved: float = 0.0
    checked: float = 0.0


class SignedInClient(_Part):
    """A client that acts for the person. `family` names its tokens."""

    family: str
    name: str
    client: str
    resource: str
    scopes: tuple[str, ...]
    at: float


class OutsideIdentity(_Part):
    """What an identity provider says about a person. `seen` is the time at which it last said so.

    `email` is a verified address, empty without one.
    """

    issuer: str
    subject: str
    name: str
    email: str = ""
    groups: tuple[str, ...] = ()
    seen: float = 0.0


class Person(_Part):
    """One account. `id` is new for each account, `generation` for each set of credentials.

    `outside` is there for a person who signs in with an identity provider; such an account has no password and no
    passkeys.
    """

    id: str
    name: str
    at: float
    generation: str
    is_removed: bool = False
    password: str = ""
    passkeys: tuple[Passkey, ...] = ()
    sessions: tuple[Session, ...] = ()
    clients: tuple[SignedInClient, ...] = ()
    outside: OutsideIdentity | None = None

    @property
    def principal(self) -> Principal:
        """The principal of this person, without a credential: that of a client's token of the same issuer, too."""
        who = self.outside
        if who is None:
            return Principal(self.name, name=self.name)
        return Principal(who.subject, who.issuer, who.name, frozenset(who.groups), email=who.email)


class UnknownPerson(InvalidParams):
    """There is no account of this name."""

    status = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no account {name[:64]!r}")


class People:
    """The accounts of one hub. Safe to use from many threads and processes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records = Records(journal, Person)
        self.now = journal.now

    def find(self, name: str) -> Person | None:
        """Return the account of this name; None without one, or when it was removed."""
        person = self._records.load(PEOPLE + name)[0] if _NAME.fullmatch(name) else None
        return None if person is None or person.is_removed else person

    def list(self) -> list[Person]:
        """Return all accounts by name."""
        return [person for name in sorted(self._ids()) if (person := self.find(name)) is not None]

    def generation(self, name: str) -> str:
        """Return the generation of this name's credentials, also of a removed account; empty before the first."""
        person, _ = self._records.load(PEOPLE + name)
        return person.generation if person is not None else ""

    def create(self, name: str, generation: str, password: str = "", passkey: Passkey | None = None) -> Person | None:
        """Make an account, or give an account new credentials and end its sessions and clients.

        `generation` is what the invitation saw; None is returned when the account has another one by now, or when there
        are MAX_PEOPLE accounts. One of `password` (a hash) and `passkey` is needed.
        """
        topic = PEOPLE + name
        while True:
            old, seq = self._records.load(topic)
            if (old.generation if old is not None else "") != generation:
                return None
            is_new = old is None or old.is_removed
            if is_new and len(self._ids()) >= MAX_PEOPLE:
                return None
            person = Person(
                id=secrets.token_hex(16) if old is None or is_new else old.id,
                name=name,
                at=self.now() if old is None or is_new else old.at,
                generation=secrets.token_hex(8),
                password=password,
                passkeys=() if passkey is None else (passkey,),
            )
            try:
                write_records(self._journal, [Write(topic, person), *notes_of_ends(old, person)], {topic: seq})
            except StaleUpdate:
                continue
            if is_new:
                self._name(person.name, person.id)
            return person

    def record(self, who: OutsideIdentity) -> Person | None:
        """Make the account of a person of an identity provider, or write what the provider says by now.

        None is returned when there are MAX_PEOPLE accounts. An account that was removed begins anew.
        """
        name = Principal(who.subject, who.issuer).account
        topic = PEOPLE + name
        while True:
            old, seq = self._records.load(topic)
            if old is not None and not old.is_removed:
                person = old.model_copy(update={"outside": who})
            elif len(self._ids()) >= MAX_PEOPLE:
                return None
            else:
                person = Person(
                    id=secrets.token_hex(16), name=name, at=self.now(), generation=secrets.token_hex(8), outside=who
                )
            try:
                write_records(self._journal, [Write(topic, person), *notes_of_ends(old, person)], {topic: seq})
            except StaleUpdate:
                continue
            if old is None or old.is_removed:
                self._name(name, person.id)
            return person

    def was_removed(self, name: str) -> bool:
        """Whether there was an account of this name, and it was removed."""
        person = self._records.load(PEOPLE + name)[0]
        return person is not None and person.is_removed

    def change(self, name: str, change: Callable[[Person], Person | None]) -> bool:
        """Replace an account by what `change` makes of it; False if that is None. Raises UnknownPerson."""

        def checked(person: Person | None) -> Person | None:
            if person is None or person.is_removed:
                raise UnknownPerson(name)
            return change(person)

        if not _NAME.fullmatch(name):
            raise UnknownPerson(name)
        return self._update(name, checked)

    def remove(self, name: str) -> bool:
        """Remove an account with its sessions, clients, invitations, and tokens at mounted servers.

        Return False if there was none.
        """
        if not _NAME.fullmatch(name):
            return False
        had, id = False, name

        def removed(person: Person | None) -> Person:
            nonlocal had, id
            had = person is not None and not person.is_removed
            id = name if person is None else person.principal.id
            return Person(
                id=secrets.token_hex(16),
                name=name,
                at=self.now(),
                generation=secrets.token_hex(8),
                is_removed=True,
            )

        self._update(name, removed)
        self._name(name, None)
        forget_principal(self._journal, id)
        return had

    def _update(self, name: str, change: Callable[[Person | None], Person | None]) -> bool:
        """Replace a record, with the note of what ended; delete the tokens of an identity provider of ended sessions.

        Return False if `change` returns None, which changes nothing.
        """
        ended: set[str] = set()

        def along(old: Person | None, new: Person) -> list[Write]:
            ended.clear()
            if old is not None and old.outside is not None:
                ended.update({one.id for one in old.sessions} - {one.id for one in new.sessions})
            return notes_of_ends(old, new)

        if not self._records.update(PEOPLE + name, change, along=along):
            return False
        for session in ended:
            delete_record(self._journal, SIGN_IN_TOKENS + session)
        return True

    def _name(self, name: str, id: str | None) -> None:
        self._journal.append(PEOPLE_NAMES, orjson.dumps([name, id]))

    def _ids(self) -> dict[str, str]:
        """The ids of accounts by name."""
        found: dict[str, str] = {}
        after = 0
        while entries := self._journal.read(PEOPLE_NAMES, after):
            for entry in entries:
                name, id = orjson.loads(entry.data)
                found.pop(name, None)
                if id is not None:
                    found[name] = id
            after = entries[-1].seq
        return found


def notes_of_ends(old: Person | None, new: Person) -> list[Write]:
    """Return the note that sessions or clients of an account have ended, to be written with it; empty without one."""
    if old is None or (
        old.id == new.id and set(old.sessions) <= set(new.sessions) and _families(old) <= _families(new)
    ):
        return []
    return [note_of_end(f"of {new.name}")]


def _families(person: Person) -> set[str]:
    return {client.family for client in person.clients}


def parse_name(text: str) -> str:
    """Return the name of an account in its one form, lower case. Raises InvalidParams for a text that is not a name."""
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise InvalidParams(
            f"{text[:64]!r} cannot be the name of an account: expected 1 to 64 letters, digits and . _ + @ -,"
            " with a letter or digit at both ends, such as ann or ann@example.org"
        )
    if is_reserved_id(name):
        raise InvalidParams(f"the name {name!r} belongs to the hub itself: choose another one")
    return name
