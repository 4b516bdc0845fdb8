"""Everything about the accounts of one hub, opened together: people, sign-in, and the authorization server.

Nothing here knows HTTP. `patchbay/web/people/` and `patchbay/web/oauth/` are the pages.
"""

from __future__ import annotations

from collections.abc import Callable

from patchbay.access.authentication import Scheme
from patchbay.access.hub_key import load_key
from patchbay.access.keys import PersonalKeys
from patchbay.access.oauth.access_token_scheme import AccessTokenScheme
from patchbay.access.oauth.asserted_tokens import AssertedTokens
from patchbay.access.oauth.clients import Clients
from patchbay.access.oauth.codes import Codes
from patchbay.access.oauth.identity_assertions import IdentityAssertions
from patchbay.access.oauth.metadata_documents import MetadataDocuments
from patchbay.access.oauth.programs import Programs
from patchbay.access.oauth.signed_token_scheme import SignedTokenScheme
from patchbay.access.oauth.tokens import Tokens
from patchbay.access.people.invitations import Invitations
from patchbay.access.people.passkeys import Passkeys
from patchbay.access.people.passwords import Passwords
from patchbay.access.people.people import People
from patchbay.access.people.sessions import PersonSessions, SessionScheme
from patchbay.access.people.sign_in_throttle import SignInThrottle
from patchbay.access.principals import Principal
from patchbay.access.sign_in_settings import has_authorization_server
from patchbay.access.tokens.issuer import load_assertion_issuers
from patchbay.settings import Settings
from patchbay.store import Journal


class Accounts:
    """The accounts of the hub with these settings; `journal` is that of its store, `keys` are its personal keys.

    `remember` gets each person of an outside issuer that a token or a session proves. `assertions` is None where the
    operator names no issuer of identity assertions. Raises ConfigError for an unusable key file, and for wrong issuers.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        keys: PersonalKeys,
        remember: Callable[[Principal], None] = lambda sender: None,
    ) -> None:
        self._remember = remember
        self.key = key = load_key(None if settings.store == "memory" else settings.data)
        self.people = People(journal)
        self.invitations = Invitations(self.people, key)
        self.passwords = Passwords()
        self.passkeys = Passkeys(self.people, journal, key)
        self.sessions = PersonSessions(self.people, settings.port, settings.path_prefix)
        self.throttle = SignInThrottle()
        self.clients = Clients(journal, key)
        self.documents = MetadataDocuments(settings.client_hosts)
        self.codes = Codes(journal)
        self.tokens = Tokens(journal, self.people, self.codes, settings.token_minutes * 60)
        self.programs = Programs(keys, journal, key, settings.token_minutes * 60)
        issuers = load_assertion_issuers(settings)
        self.assertions = IdentityAssertions(issuers) if issuers else None
        urls = [issuer.url for issuer in issuers]
        self.asserted = AssertedTokens(keys, key, settings.token_minutes * 60, urls, remember)

    def list_schemes(self, settings: Settings) -> list[Scheme]:
        """Return the schemes that prove a person. The last one answers for every token that no other scheme knows."""
        sessions = SessionScheme(self.sessions, self._remember)
        if not has_authorization_server(settings):
            return [sessions]
        signed = [SignedTokenScheme(self.programs), SignedTokenScheme(self.asserted)]
        return [sessions, *signed, AccessTokenScheme(self.tokens, self._remember)]
