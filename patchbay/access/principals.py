"""A principal: the person, program or key that sends a request, and the agent that acts for it.

Everything that the hub holds for a caller (sessions, streams, tasks, listeners, quotas, memberships of rooms) is keyed
by `Principal.id`, which is made of issuer and subject. The bytes of a token are never a key: a refreshed token is the
same principal.
Sources: RFC 9068, section 2.2 (`iss`, `sub`, `client_id`, `groups`); RFC 8693, section 4.1 (`act`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256

LOCAL_ID = "local"
"""The id of every caller of a hub in personal mode."""

OPERATOR_ID = "operator"
"""The id of the operator in shared mode: the sender of the operator's token or session cookie."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request.

    `issuer` is the URL of the authorization server that vouches for `subject`; empty for what this hub itself knows
    (people, keys, the operator). `name` is for people to read. `groups` come from the issuer. `agent` is the client id
    of the program that acts for the principal, empty without one. `scopes` narrow what the principal may do; None
    means that the credentials do not narrow it. `is_operator` says that the request proves the operator. `credential`
    names what proved it (`access/credentials/names.py`): it says whether the principal may go on, and nothing else.
    `email` is an address that the issuer says it has verified, empty without one; no right depends on it.
    """

    subject: str
    issuer: str = ""
    name: str = ""
    groups: frozenset[str] = frozenset()
    agent: str = ""
    scopes: frozenset[str] | None = None
    is_operator: bool = False
    credential: str = field(default="", compare=False)
    email: str = ""

    def __hash__(self) -> int:
        # Every call looks its principal up in several tables; principals with one subject are few.
        return hash(self.subject)

    @property
    def id(self) -> str:
        """The key of this principal: the subject, after the issuer and `#` where there is an issuer."""
        return f"{self.issuer}#{self.subject}" if self.issuer else self.subject

    @property
    def account(self) -> str:
        """The name of the account that a person with this principal has: the subject, or a digest with an issuer."""
        if not self.issuer:
            return self.subject
        return OUTSIDE_ACCOUNTS + sha256(self.id.encode("utf-8", "surrogatepass")).hexdigest()[:OUTSIDE_DIGITS]


LOCAL = Principal(LOCAL_ID)
"""Every caller of a hub in personal mode, and every stranger of an open hub."""

LOCAL_OPERATOR = Principal(LOCAL_ID, is_operator=True)
"""The operator of a hub in personal or open mode, and the user who starts the hub on standard input and output."""

OPERATOR = Principal(OPERATOR_ID, name="the operator", is_operator=True)
"""The sender of the operator's token or session cookie in shared mode."""

ANONYMOUS = Principal("", scopes=frozenset())
"""A caller without credentials at the few paths that shared mode serves to everybody. It may do nothing."""

EVERY_CALLER = Principal("*")
"""Has the rights that every caller has, and no others. It sends nothing."""

KEY_IDS = "key:"
"""How the id of a personal key begins; the name of the key follows."""

SCHEDULE_IDS = "schedule:"
"""How the id of the sender of a scheduled call begins; the server and the tool follow."""

OUTSIDE_ACCOUNTS, OUTSIDE_DIGITS = "idp-", 40
"""How the name of the account of a person of an identity provider begins, and the hexadecimal digits that follow."""

_OUTSIDE_PERSON = re.compile(r"https?://[^#]*#", re.IGNORECASE)
_OUTSIDE_ACCOUNT = re.compile(rf"{OUTSIDE_ACCOUNTS}[0-9a-f]{{{OUTSIDE_DIGITS}}}")


def is_reserved_id(id: str) -> bool:
    """Whether an id has a meaning of its own, so that no person and no outside subject may have it."""
    if id in ("", "*", LOCAL_ID, OPERATOR_ID) or id.startswith((KEY_IDS, SCHEDULE_IDS)):
        return True
    return _OUTSIDE_ACCOUNT.fullmatch(id) is not None


def is_group_name(name: str) -> bool:
    """Whether a group of an issuer may have this name: no reserved id, and no id of a person of an issuer.

    Grants name groups and principals in one list. A group with the name of a principal would be this principal there.
    """
    return not is_reserved_id(name) and _OUTSIDE_PERSON.match(name) is None
