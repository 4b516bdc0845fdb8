"""Sign-ins with identity providers, from the button on the page to the end of the session.

A person is issuer and subject, and nothing else: a verified e-mail address joins no accounts, because two providers, or
two owners of one address, would then be one person. What a provider says about a person is written down at each
sign-in, and again every REFRESH_SECONDS while a browser is used; a session whose refresh is refused ends.
Sources: OpenID Connect Core 1.0, sections 3.1, 5.7 and 12; OpenID Connect RP-Initiated Logout 1.0; OpenID Connect
Back-Channel Logout 1.0, section 2; RFC 9700, section 4.14 (refresh tokens).
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from patchbay.access.people.people import OutsideIdentity, People, Person, Session, UnknownPerson
from patchbay.access.people.sessions import SESSION_SECONDS, UNCONFIRMED_SECONDS, ProvedOutside
from patchbay.access.principals import Principal
from patchbay.access.providers.id_tokens import LOGOUT_SECONDS
from patchbay.access.providers.invited import InvitedPeople
from patchbay.access.providers.pending import PendingSignIns
from patchbay.access.providers.provider import Provider
from patchbay.access.providers.relying_party import ProviderTokens, RelyingParty
from patchbay.access.tokens.claims import LEEWAY_SECONDS, make_principal
from patchbay.access.tokens.problems import IssuerRefused, IssuerUnavailable, WrongToken
from patchbay.access.upstreams.deletion import delete_record
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.coordination.records import Records
from patchbay.errors import ConfigError, PatchbayError, Refused, StaleUpdate
from patchbay.store import Journal
from patchbay.topics import LOGOUT_TOKENS, SIGN_IN_SESSIONS, SIGN_IN_TOKENS

log = logging.getLogger(__name__)

REFRESH_SECONDS = 900.0
"""Seconds after which the next request of a session asks the provider whether the person may go on."""

RETRY_SECONDS = 60.0
"""Seconds until it asks again a provider that did not answer, for any session of this process."""

MAX_GROUP_BYTES = 48 * 1024
"""Bytes of the names of the groups of one person, which the account stores."""


class SignInFailed(Refused):
    """The provider's answer cannot be accepted, or the person may not sign in here."""


class ProviderAway(PatchbayError):
    """The provider does not answer, so that no sign-in with it works now (503)."""

    status = 503

    def __init__(self, provider: Provider) -> None:
        super().__init__(
            f"{provider.name} does not answer now, so that you cannot sign in with it: try again in a minute. People"
            " who are signed in stay so, and the operator logs in with `patchbay login`"
        )
        self.headers = {"Retry-After": f"{RETRY_SECONDS:.0f}"}


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person who signed in: the account, the session that begins, and the page after it."""

    person: Person
    session: ProvedOutside
    then: str


@dataclass(frozen=True, slots=True)
class _Owner:
    account: str


class ProviderSignIns:
    """The sign-ins of one hub. Thread-safe.

    `find_secret` returns the value of a secret by its name, None without one. With `needs_invitation` an account begins
    with an invitation only. `key` is the secret key of the hub.
    """

    def __init__(
        self,
        providers: Iterable[Provider],
        journal: Journal,
        people: People,
        key: bytes,
        find_secret: Callable[[str], str | None],
        needs_invitation: bool = False,
    ) -> None:
        self._journal = journal
        self._people = people
        self._needs_invitation = needs_invitation
        self.invited = InvitedPeople(journal)
        self._pending = PendingSignIns(journal, key)
        self._tokens = SealedRecords(journal, ProviderTokens, key)
        self._owners = Records(journal, _Owner)
        self._next_question: dict[str, float] = {}
        """The times from which providers that did not answer are asked about sessions again."""
        self.parties = {one.key: RelyingParty(one, _secret_finder(one, find_secret), journal.now) for one in providers}

    def find_provider(self, person: Person) -> Provider | None:
        """Return the provider that a person signs in with; None for another person, or one that the hub lost."""
        party = self._find_party(person)
        return None if party is None else party.provider

    def begin(self, party: RelyingParty, base_url: str, then: str, proves_again: bool) -> tuple[str, str]:
        """Begin a sign-in; return the address of the provider's page, and the value of the cookie.

        Raises ProviderAway.
        """
        question, cookie = self._pending.begin(party.provider, base_url, then, proves_again)
        try:
            return party.ask(question), cookie
        except IssuerUnavailable as problem:
            raise _away(party, problem) from problem

    def finish(self, party: RelyingParty, cookie: str, answer: Mapping[str, str]) -> SignedIn:
        """Sign in the person of a provider's answer. Raises WrongAnswer, SignInFailed, ProviderAway."""
        try:
            pending, code = self._pending.finish(party.provider, cookie, answer, party.names_issuer())
            claims, tokens = party.redeem(code, pending.question)
            now = self._journal.now()
            who = _identity_of(claims, party.provider, now)
            proved = _read_proof_time(claims, now)
        except IssuerRefused as problem:
            log.warning("the sign-in with %s failed: %s", party.provider.name, problem.message)
            if problem.error == "invalid_client":
                raise SignInFailed(
                    f"{party.provider.name} does not accept the client of this hub: the operator checks"
                    " --sign-in-client and its secret"
                ) from problem
            raise SignInFailed(
                f"{party.provider.name} refused the answer of this sign-in ({problem.error[:80]}): sign in again"
            ) from problem
        except IssuerUnavailable as problem:
            raise _away(party, problem) from problem
        except WrongToken as problem:
            log.warning("the sign-in with %s failed: %s", party.provider.name, problem.message)
            raise SignInFailed(f"the answer of {party.provider.name} was not accepted: {problem.message}") from problem
        if pending.question.proves_again and proved < pending.question.began - LEEWAY_SECONDS:
            raise SignInFailed(
                f"{party.provider.name} did not say that you proved yourself just now (auth_time): the act needs it, or"
                " the operator's token"
            )
        person = self._admit(who, party.provider)
        session = ProvedOutside(secrets.token_hex(8), str(claims.get("sid", "")), proved, bool(tokens.refresh))
        self._keep(person, session, tokens)
        return SignedIn(person, session, pending.then)

    def find_next_page(self, cookie: str) -> str:
        """Return the page after the sign-in that has begun with this cookie; empty without one."""
        pending = self._pending.read(cookie)
        return "" if pending is None else pending.then

    def confirm(self, person: Person, session: Session) -> Person | None:
        """Return the account of a session as its provider describes it now; None for a session that ended.

        It asks the provider at most once in REFRESH_SECONDS. While the provider is away the last answer stays. A
        session about which it cannot ask, because it has no refresh token, lasts UNCONFIRMED_SECONDS.
        """
        unchecked = self._journal.now() - session.checked
        if unchecked < REFRESH_SECONDS:
            return person
        party, tokens = self._find_party(person), self._tokens.load(SIGN_IN_TOKENS + session.id)[0]
        can_ask = tokens is not None and bool(tokens.refresh)
        if party is None or (not can_ask and unchecked >= UNCONFIRMED_SECONDS):  # without one the operator removed it
            self._end(person.name, lambda one: one.id == session.id)
            return None
        is_quiet = self._journal.now() < self._next_question.get(party.provider.key, 0.0)
        if tokens is None or not can_ask or is_quiet or not self._claim_refresh(person, session):
            return person  # in the last case another request or process asks
        return self._refresh(party, person, session, tokens)

    def sign_out(self, person: Person, session: Session, then: str) -> str:
        """Return the address that ends the session at the provider too, empty without one; `then` is the next page.

        The session of this hub is ended elsewhere.
        """
        party, tokens = self._find_party(person), self._tokens.load(SIGN_IN_TOKENS + session.id)[0]
        return party.find_sign_out(tokens.id_token if tokens is not None else "", then) if party is not None else ""

    def end_by_provider(self, party: RelyingParty, logout_token: str) -> int:
        """End the sessions that a logout token names, on every node; return their number.

        With a subject and no session (`sid`) the clients of the person end too. Raises WrongToken, IssuerUnavailable.
        """
        claims = party.check_logout_token(logout_token)
        issuer, sid, subject = party.provider.issuer.url, claims.get("sid", ""), claims.get("sub", "")
        topic = LOGOUT_TOKENS + _digest(issuer, claims["jti"])
        if self._journal.last(topic):
            raise WrongToken("the logout token was used before")
        account = Principal(subject, issuer).account if subject else self._find_owner(issuer, sid)
        ended = self._end(account, lambda one: not sid or one.sid == sid, ends_clients=not sid) if account else 0
        # The mark comes last: after a failure above, the provider sends the token once more.
        try:
            self._journal.append_all([(topic, b"used", 2 * LOGOUT_SECONDS)], {topic: 0})
        except StaleUpdate as problem:
            raise WrongToken("the logout token was used before") from problem
        return ended

    def _admit(self, who: OutsideIdentity, provider: Provider) -> Person:
        """Return the account of a person, which may begin now. Raises SignInFailed."""
        name = Principal(who.subject, who.issuer).account
        if self._people.find(name) is None:
            must_be_invited = self._needs_invitation or self._people.was_removed(name)
            if not self.invited.use(who) and must_be_invited:
                log.warning("a sign-in without an invitation: %s#%s", who.issuer, who.subject)
                raise SignInFailed(
                    f"you are signed in at {provider.name}, and have no account of this hub: ask its operator to invite"
                    f" {who.email or 'your verified e-mail address'}, or the subject {who.subject}"
                )
        person = self._people.record(who)
        if person is None:
            raise SignInFailed("this hub has as many accounts as it can have: ask its operator to remove one")
        return person

    def _keep(self, person: Person, session: ProvedOutside, tokens: ProviderTokens) -> None:
        """Store the tokens of a session, sealed, and whose session at the provider it is."""
        self._store_tokens(session.id, tokens)
        if session.sid and person.outside is not None:
            topic = SIGN_IN_SESSIONS + _digest(person.outside.issuer, session.sid)
            self._owners.update(topic, lambda _: _Owner(person.name), SESSION_SECONDS)

    def _store_tokens(self, session: str, tokens: ProviderTokens) -> None:
        """Store the tokens of a session, sealed. `People` deletes them when the session ends."""
        self._tokens.update(SIGN_IN_TOKENS + session, lambda _: tokens, SESSION_SECONDS)

    def _find_owner(self, issuer: str, sid: str) -> str:
        found = self._owners.load(SIGN_IN_SESSIONS + _digest(issuer, sid))[0]
        return "" if found is None else found.account

    def _find_party(self, person: Person) -> RelyingParty | None:
        issuer = person.outside.issuer if person.outside is not None else ""
        return next((one for one in self.parties.values() if one.provider.issuer.url == issuer), None)

    def _claim_refresh(self, person: Person, session: Session) -> bool:
        """Write that a session is checked now; False if another request or process was first.

        A refresh token works once, so that one of them asks. The others go on with what is known.
        """
        now = self._journal.now()
        return self._change_session(
            person.name, session.id, lambda one: None if one.checked != session.checked else {"checked": now}
        )

    def _refresh(self, party: RelyingParty, person: Person, session: Session, tokens: ProviderTokens) -> Person | None:
        assert person.outside is not None, "a person of a provider"
        now = self._journal.now()
        try:
            claims, fresh = party.refresh(
                tokens, person.outside.subject, lambda given: self._store_tokens(session.id, given)
            )
            who = None if claims is None else _identity_of(claims, party.provider, now)
        except (IssuerRefused, WrongToken) as problem:
            if getattr(problem, "error", "") != "invalid_client":
                log.info("a session of %s ended, because %s", person.principal.id, problem.message)
                self._end(person.name, lambda one: one.id == session.id)
                return None
            return self._try_later(party, person, session, problem)
        except IssuerUnavailable as problem:
            return self._try_later(party, person, session, problem)
        self._store_tokens(session.id, fresh)
        refreshed = self._record_refresh(person, session, who, now)
        if refreshed is None:  # the session ended meanwhile, before its tokens were stored
            delete_record(self._journal, SIGN_IN_TOKENS + session.id)
        return refreshed

    def _record_refresh(
        self, person: Person, session: Session, who: OutsideIdentity | None, now: float
    ) -> Person | None:
        """Write what the provider said about a person; return the account, None if the session has ended meanwhile.

        `who` is None where the provider said only that the sign-in goes on. `now` is the time before the question:
        what a later sign-in has written stays.
        """
        written: list[Person] = []

        def refreshed(present: Person) -> Person | None:
            written.clear()
            if present.outside is None or all(one.id != session.id for one in present.sessions):
                return None
            outside = present.outside if who is None or present.outside.seen > now else who
            seen = max(now, outside.seen)
            written.append(present.model_copy(update={"outside": outside.model_copy(update={"seen": seen})}))
            return written[0]

        try:
            self._people.change(person.name, refreshed)
        except UnknownPerson:
            return None
        return written[0] if written else None

    def _try_later(
        self, party: RelyingParty, person: Person, session: Session, problem: PatchbayError
    ) -> Person | None:
        log.warning("%s cannot be asked about a session: %s", party.provider.name, problem.message)
        now = self._journal.now()
        self._next_question[party.provider.key] = now + RETRY_SECONDS
        earlier = now - REFRESH_SECONDS + RETRY_SECONDS
        if self._change_session(person.name, session.id, lambda _: {"checked": earlier}):
            return person
        delete_record(self._journal, SIGN_IN_TOKENS + session.id)  # the session ended meanwhile
        return None

    def _change_session(self, account: str, id: str, change: Callable[[Session], dict[str, float] | None]) -> bool:
        def changed(person: Person) -> Person | None:
            found = next((one for one in person.sessions if one.id == id), None)
            update = None if found is None else change(found)
            if found is None or update is None:
                return None
            fresh = found.model_copy(update=update)
            sessions = tuple(fresh if one.id == id else one for one in person.sessions)
            return person.model_copy(update={"sessions": sessions})

        try:
            return self._people.change(account, changed)
        except UnknownPerson:
            return False

    def _end(self, account: str, ends: Callable[[Session], bool], ends_clients: bool = False) -> int:
        """End sessions of an account, and its clients if wanted; return the number of sessions."""
        ended: list[str] = []

        def without(person: Person) -> Person | None:
            ended[:] = [one.id for one in person.sessions if ends(one)]
            if not ended and not (ends_clients and person.clients):
                return None
            rest = tuple(one for one in person.sessions if one.id not in ended)
            clients = () if ends_clients else person.clients
            return person.model_copy(update={"sessions": rest, "clients": clients})

        try:
            self._people.change(account, without)
        except UnknownPerson:
            return 0
        return len(ended)


def _identity_of(claims: Mapping[str, Any], provider: Provider, now: float) -> OutsideIdentity:
    """Return what checked claims say about a person. Raises WrongToken for claims of a wrong type."""
    found = make_principal(claims, provider.issuer)
    groups = tuple(sorted(found.groups))
    if sum(len(one.encode("utf-8", "surrogatepass")) for one in groups) > MAX_GROUP_BYTES:
        raise WrongToken(f"the names of your groups have more than {MAX_GROUP_BYTES} bytes together; send fewer groups")
    return OutsideIdentity(
        issuer=found.issuer, subject=found.subject, name=found.name, email=found.email, groups=groups, seen=now
    )


def _read_proof_time(claims: Mapping[str, Any], now: float) -> float:
    """Return when the person proved itself at the provider (Unix time); 0 where the provider does not say it."""
    found = claims.get("auth_time")
    is_time = isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
    return min(float(found), now) if is_time and found is not None else 0.0


def _secret_finder(provider: Provider, find: Callable[[str], str | None]) -> Callable[[], str]:
    """Return the function that finds the secret of a client. It raises IssuerUnavailable for one that is missing."""

    def find_secret() -> str:
        if not provider.secret:
            return ""
        try:
            found = find(provider.secret)
        except ConfigError as problem:
            raise IssuerUnavailable(problem.message) from problem
        if not found:
            raise IssuerUnavailable(f"the secret {provider.secret} is missing: `patchbay secret set {provider.secret}`")
        return found

    return find_secret


def _away(party: RelyingParty, problem: IssuerUnavailable) -> ProviderAway:
    log.warning("no sign-in with %s works now: %s", party.provider.name, problem.message)
    return ProviderAway(party.provider)


def _digest(issuer: str, id: str) -> str:
    return sha256(f"{issuer}\n{id}".encode("utf-8", "surrogatepass")).hexdigest()
