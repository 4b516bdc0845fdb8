"""Who is invited to sign in with an identity provider, where the setting `sign_up` asks for an invitation.

An invitation names a verified e-mail address or a subject at one provider. The first sign-in uses it up, and binds the
account to issuer and subject: a later owner of the address is another person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchbay.access.people.people import OutsideIdentity
from patchbay.access.tokens.claims import MAX_NAME_CHARACTERS
from patchbay.coordination.records import Records, encode_record
from patchbay.errors import InvalidParams
from patchbay.store import Journal
from patchbay.topics import SIGN_IN_INVITED

MAX_INVITED = 1000
MAX_INVITED_BYTES = 120 * 1024
"""Bytes of all invitations, which are one record."""

_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")


@dataclass(frozen=True, slots=True)
class Invited:
    """One invitation: who (an e-mail address in lower case, or a subject), at which issuer, since when (Unix time)."""

    who: str
    issuer: str
    at: float


@dataclass(frozen=True, slots=True)
class _List:
    rows: tuple[Invited, ...] = ()


class InvitedPeople:
    """The invitations of one hub. Safe to use from many threads and processes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records = Records(journal, _List)

    def list(self) -> list[Invited]:
        """Return the invitations that are not used, oldest first."""
        return [*(self._records.load(SIGN_IN_INVITED)[0] or _List()).rows]

    def add(self, who: str, issuer: str) -> Invited:
        """Invite the owner of an e-mail address, or a subject, at the provider with this URL. Raises InvalidParams."""
        who = who.strip()
        if not who or len(who) > MAX_NAME_CHARACTERS or not who.isprintable():
            raise InvalidParams(
                f"expected an e-mail address, or a subject of the provider, of at most {MAX_NAME_CHARACTERS} characters"
            )
        row = Invited(in_one_form(who), issuer, self._journal.now())

        def added(old: _List | None) -> _List:
            rest = [one for one in (old or _List()).rows if (one.who, one.issuer) != (row.who, row.issuer)]
            rows = (*rest, row)
            if len(rows) > MAX_INVITED or len(encode_record(_List(rows))) > MAX_INVITED_BYTES:
                raise InvalidParams(f"there are {len(rest)} invitations, and no place for more: withdraw one first")
            return _List(rows)

        self._records.update(SIGN_IN_INVITED, added)
        return row

    def withdraw(self, who: str, issuer: str) -> bool:
        """Withdraw an invitation; return False if there is none."""

        def without(old: _List | None) -> _List | None:
            rows = (old or _List()).rows
            rest = tuple(one for one in rows if (one.who, one.issuer) != (in_one_form(who), issuer))
            return _List(rest) if len(rest) < len(rows) else None

        return self._records.update(SIGN_IN_INVITED, without)

    def use(self, person: OutsideIdentity) -> bool:
        """Use up an invitation of this person; return False if there is none."""
        names = [person.subject, *([in_one_form(person.email)] if person.email else [])]
        return any(self.withdraw(name, person.issuer) for name in names)


def in_one_form(who: str) -> str:
    """Return an e-mail address in lower case; a subject as it is."""
    return who.lower() if _EMAIL.fullmatch(who) else who
