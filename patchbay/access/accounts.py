"""Everything about the accounts of one hub, opened together: people, sign-in, and the authorization server.

Nothing here knows HTTP. `patchbay/web/people/` and `patchbay/web/oauth/` are the pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchbay.access.authentication import Scheme
from patchbay.access.hub_key import load_key
from patchbay.access.oauth.access_token_scheme import AccessTokenScheme
from patchbay.access.oauth.clients import Clients
from patchbay.access.oauth.codes import Codes
from patchbay.access.oauth.metadata_documents import MetadataDocuments
from patchbay.access.oauth.tokens import Tokens
from patchbay.access.people.invitations import Invitations
from patchbay.access.people.passkeys import Passkeys
from patchbay.access.people.passwords import Passwords
from patchbay.access.people.people import People
from patchbay.access.people.sessions import PersonSessions, SessionScheme
from patchbay.access.people.sign_in_throttle import SignInThrottle
from patchbay.settings import Settings
from patchbay.store import Journal


class Accounts:
    """The accounts of the hub with these settings; `journal` is that of its store.

    Raises ConfigError for an unusable key file.
    """

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self.key = key = load_key(None if settings.store == "memory" else settings.data)
        self.people = People(journal)
        self.invitations = Invitations(self.people, key)
        self.passwords = Passwords()
        self.passkeys = Passkeys(self.people, journal, key)
        self.sessions = PersonSessions(self.people, settings.port)
        self.throttle = SignInThrottle()
        self.clients = Clients(journal, key)
        self.documents = MetadataDocuments(settings.client_hosts)
        self.codes = Codes(journal)
        self.tokens = Tokens(journal, self.people, self.codes, settings.token_minutes * 60)

    @property
    def schemes(self) -> Sequence[Scheme]:
        """The schemes that prove a person: an access token, and the session cookie."""
        return AccessTokenScheme(self.tokens), SessionScheme(self.sessions)


def has_sign_in(settings: Settings) -> bool:
    """Whether people sign in at this hub: in every mode but the personal one."""
    return settings.access != "personal"


def list_issuers(settings: Settings, base: str) -> list[str]:
    """Return the authorization servers of the hub's resources; `base` is scheme, host and port of the hub.

    An outside issuer replaces the hub's own authorization server.
    """
    return [base] if has_sign_in(settings) else []
