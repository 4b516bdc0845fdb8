"""The credentials of people: their browser sessions and the sign-ins of their clients, as their accounts list them."""

from __future__ import annotations

from patchbay.access.oauth.tokens import TokenFamily
from patchbay.access.people.people import Person
from patchbay.coordination.records import Records
from patchbay.store import Journal
from patchbay.topics import PEOPLE, TOKEN_FAMILIES


class PeopleCredentials:
    """Reads accounts. Each method reads the journal; raises ContentError for a record that cannot be read."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._people = Records(journal, Person)
        self._families = Records(journal, TokenFamily)

    def has_session(self, name: str, session: str) -> bool:
        """Whether a person has a session, named `ACCOUNT.SESSION`, that has not expired."""
        account, _, id = session.partition(".")
        person = self._find(name, account)
        now = self._journal.now()
        return person is not None and any(one.id == id and one.until > now for one in person.sessions)

    def has_sign_in(self, name: str, sign_in: str) -> bool:
        """Whether a client of a person, whose sign-in is named `ACCOUNT.FAMILY`, is still signed in."""
        account, _, family = sign_in.partition(".")
        person = self._find(name, account)
        if person is None or all(one.family != family for one in person.clients):
            return False
        known = self._families.load(TOKEN_FAMILIES + family)[0]
        return known is not None and known.until > self._journal.now()

    def is_removed(self, name: str) -> bool:
        """Whether the account of this name was removed."""
        person = self._people.load(PEOPLE + name)[0]
        return person is not None and person.is_removed

    def _find(self, name: str, account: str) -> Person | None:
        person = self._people.load(PEOPLE + name)[0]
        return person if person is not None and person.id == account and not person.is_removed else None
