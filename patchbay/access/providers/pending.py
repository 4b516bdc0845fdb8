"""Sign-ins that have begun: what a browser has to bring back with the answer of the provider.

A signed cookie holds it, so that the beginning of a sign-in leaves nothing in the store. Its answer leaves the hash of
its state, for twice SIGN_IN_SECONDS; `web/people/providers.py` limits answers by address. The answer counts only in
the browser that has the cookie, so that a code that another browser got signs no person in. A state works once.
Sources: RFC 6749, section 10.12; RFC 9700, sections 2.1, 4.4 and 4.7; RFC 9207, section 2.4.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from hashlib import sha256

from itsdangerous import BadData

from patchbay.access.providers.provider import Provider
from patchbay.access.providers.relying_party import Question
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import Refused, StaleUpdate
from patchbay.store import Journal
from patchbay.topics import SIGN_IN_STATES

SIGN_IN_SECONDS = 600
"""Seconds that a person has to sign in at the provider."""

MAX_COOKIE_CHARACTERS = 3800
"""Characters of the cookie that browsers store at least, with its name and attributes (RFC 6265, section 6.1)."""


class WrongAnswer(Refused):
    """The answer of a provider does not belong to a sign-in of this browser."""

    status = 400


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that has begun: with the provider of this key, for the page `then`."""

    provider: str
    question: Question
    then: str


class PendingSignIns:
    """The sign-ins that have begun at one hub; `key` is its secret key."""

    def __init__(self, journal: Journal, key: bytes) -> None:
        self._journal = journal
        self._signer = timed_serializer(key, "provider-sign-in", journal.now, SHA256)

    def begin(self, provider: Provider, base_url: str, then: str, proves_again: bool) -> tuple[Question, str]:
        """Return the question for a provider, and the value of the cookie. `base_url` is the hub as the browser sees
        it.
        """
        question = Question(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            redirect_uri=base_url + provider.callback,
            began=self._journal.now(),
            proves_again=proves_again,
        )
        values = [provider.key, *astuple(question)]
        cookie = str(self._signer.dumps([*values, then]))
        if len(cookie) > MAX_COOKIE_CHARACTERS:  # the page after the sign-in is too long for a cookie
            cookie = str(self._signer.dumps([*values, "/account"]))
        return question, cookie

    def finish(
        self, provider: Provider, cookie: str, answer: Mapping[str, str], names_issuer: bool
    ) -> tuple[PendingSignIn, str]:
        """Return the sign-in that an answer of a provider belongs to, and the code. It works once.

        `names_issuer` says that each answer of the provider names it. Raises WrongAnswer.
        """
        pending = self.read(cookie)
        if pending is None or not hmac.compare_digest(
            pending.question.state.encode(), answer.get("state", "").encode("utf-8", "surrogatepass")
        ):
            raise WrongAnswer(
                "this sign-in was begun in another browser, took longer than ten minutes, or was finished before: sign"
                " in again"
            )
        issuer = answer.get("iss")
        is_other = issuer != provider.issuer.url if issuer is not None else names_issuer
        if pending.provider != provider.key or is_other:
            raise WrongAnswer("this answer comes from another identity provider than the one of the sign-in")
        self._use(pending.question.state)
        if "error" in answer or not answer.get("code"):
            raise WrongAnswer(_describe_error(provider, answer))
        return pending, answer["code"]

    def read(self, cookie: str) -> PendingSignIn | None:
        """Return the sign-in of a cookie; None for one that is too old, or that this hub did not make."""
        if len(cookie) > MAX_COOKIE_CHARACTERS:
            return None
        try:
            key, *values, then = self._signer.loads(cookie, max_age=SIGN_IN_SECONDS)
            return PendingSignIn(key, Question(*values), then)
        except (BadData, ValueError, TypeError):
            return None

    def _use(self, state: str) -> None:
        topic = SIGN_IN_STATES + sha256(state.encode()).hexdigest()
        try:
            self._journal.append_all([(topic, b"used", 2.0 * SIGN_IN_SECONDS)], {topic: 0})
        except StaleUpdate as problem:
            raise WrongAnswer("this sign-in was finished before: sign in again") from problem


def _describe_error(provider: Provider, answer: Mapping[str, str]) -> str:
    """Return a sentence about an error of the provider, whose own text is shortened."""
    if answer.get("error") == "access_denied":
        return f"you were not signed in: {provider.name} says that you or its administrator refused it"
    said = answer.get("error_description") or answer.get("error") or "its answer has no code"
    return f"{provider.name} did not sign you in: {said[:200]}"
