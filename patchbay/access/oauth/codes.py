"""Authorization codes: what a person approved, until the client redeems it, once and within a minute.

The hub stores the hash of a code. A used code keeps the family of its tokens, so that a second use can end them.
Sources: RFC 6749, section 4.1.2; RFC 7636 (PKCE); RFC 9700, section 2.1.1.
"""

from __future__ import annotations

import secrets
from hashlib import sha256

from pydantic import BaseModel, ConfigDict

from patchbay.access.oauth.clients import Client
from patchbay.access.people.people import Person
from patchbay.coordination.records import Records, Write, write_records
from patchbay.store import Journal
from patchbay.topics import AUTHORIZATION_CODES

CODE_SECONDS = 60.0
"""Seconds that a client has to redeem a code."""

REPLAY_SECONDS = 24 * 3600.0
"""Seconds in which a second use of a code is noticed and ends its tokens."""


class AuthorizationCode(BaseModel):
    """What a code stands for. `challenge` is the S256 challenge of PKCE; `family` names the tokens of a used code."""

    model_config = ConfigDict(frozen=True)

    client: Client
    redirect_uri: str
    names_redirect_uri: bool
    scopes: tuple[str, ...]
    resource: str
    challenge: str
    person: str
    account: str
    generation: str
    until: float
    family: str = ""

    @property
    def code_challenge(self) -> str:
        return self.challenge

    @property
    def code_challenge_method(self) -> str:
        return "S256"

    def get_redirect_uri(self) -> str:
        return self.redirect_uri if self.names_redirect_uri else ""

    def get_scope(self) -> str:
        return " ".join(self.scopes)


class Codes:
    """The authorization codes of one hub."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.records = Records(journal, AuthorizationCode)

    def make(
        self,
        person: Person,
        client: Client,
        redirect_uri: str | None,
        scopes: tuple[str, ...],
        resource: str,
        challenge: str,
    ) -> str:
        """Make a code for what a person approved. `redirect_uri` is None for a request without one."""
        code = secrets.token_urlsafe(32)
        known = AuthorizationCode(
            client=client,
            redirect_uri=redirect_uri or client.redirect_uris[0],
            names_redirect_uri=redirect_uri is not None,
            scopes=scopes,
            resource=resource,
            challenge=challenge,
            person=person.name,
            account=person.id,
            generation=person.generation,
            until=self._journal.now() + CODE_SECONDS,
        )
        write_records(self._journal, [Write(code_topic(code), known, REPLAY_SECONDS)], {})
        return code

    def find(self, code: str) -> AuthorizationCode | None:
        """Return what a code stands for, used and expired ones too."""
        return self.records.load(code_topic(code))[0] if len(code) <= 256 else None


def code_topic(code: str) -> str:
    """The topic of the record of a code."""
    return AUTHORIZATION_CODES + sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
