"""Passkeys: WebAuthn credentials that are made and used on the pages of the hub.

The browser proves the person by itself (user verification), so that a passkey needs no password beside it. A challenge
is a random number in a signed ticket of five minutes; the journal records its first use, and a second use is refused.
A passkey belongs to a host name; an IP address cannot have one.
Source: https://www.w3.org/TR/webauthn-3/, sections 7.1 and 7.2.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import orjson
from itsdangerous import BadData

from patchbay.access.people.people import MAX_PASSKEYS, Passkey, People, Person
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import InvalidParams, Refused, StaleUpdate
from patchbay.store import Journal
from patchbay.topics import PASSKEY_CHALLENGES

CHALLENGE_SECONDS = 300
"""Seconds that a person has to answer a challenge."""

MAX_ANSWER_CHARACTERS = 32 * 1024
MAX_LABEL_CHARACTERS = 60


class WrongPasskey(Refused):
    """The answer of the browser does not prove the passkey."""

    status = 401

    def __init__(self) -> None:
        super().__init__("the passkey was not accepted: try again, or sign in with the password")


@dataclass(frozen=True, slots=True)
class Ceremony:
    """A question for the browser: `options` for `navigator.credentials`, and the `ticket` that comes back with it."""

    options: dict[str, Any]
    ticket: str


def passkey_host(host: str) -> str:
    """Return the host name that passkeys of a request belong to; empty where a browser offers none (an IP address)."""
    name = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name.lower()
    return ""


class Passkeys:
    """The passkeys of one hub; `key` is its secret key."""

    def __init__(self, people: People, journal: Journal, key: bytes) -> None:
        self._people = people
        self._journal = journal
        self._signer = timed_serializer(key, "passkey", journal.now, SHA256)

    def ask_to_make(self, name: str, person: Person | None, host: str) -> Ceremony:
        """Ask a browser to make a passkey for the person `name`, who may have no account yet."""
        webauthn, challenge = _load_webauthn(), secrets.token_bytes(32)
        known = [] if person is None else [each.id for each in person.passkeys]
        options = webauthn.make_registration_options(webauthn.Question(challenge, host), name, known, CHALLENGE_SECONDS)
        return Ceremony(options, self._ticket("make", name, challenge))

    def make(self, name: str, ticket: str, answer: str, label: str, origin: str, host: str) -> Passkey:
        """Return the passkey that a browser made. Raises WrongPasskey, InvalidParams."""
        webauthn, challenge = _load_webauthn(), self._challenge("make", name, ticket)
        try:
            found = webauthn.verify_registration(_parse(answer), webauthn.Question(challenge, host, origin))
        except webauthn.WrongAnswer as problem:
            raise WrongPasskey from problem
        self._use(challenge)
        label = " ".join(label.split())[:MAX_LABEL_CHARACTERS] or "Passkey"
        return Passkey(id=found.id, key=found.key, count=found.count, name=label, host=host, at=self._journal.now())

    def ask_to_sign_in(self, host: str) -> Ceremony:
        """Ask a browser for any passkey of this hub."""
        webauthn, challenge = _load_webauthn(), secrets.token_bytes(32)
        options = webauthn.make_authentication_options(webauthn.Question(challenge, host), CHALLENGE_SECONDS)
        return Ceremony(options, self._ticket("use", "", challenge))

    def sign_in(self, ticket: str, answer: str, origin: str, host: str) -> Person:
        """Return the person whose passkey answered. Raises WrongPasskey, InvalidParams."""
        webauthn, challenge = _load_webauthn(), self._challenge("use", "", ticket)
        sent = _parse(answer)
        person, passkey = self._find(sent)
        question = webauthn.Question(challenge, host, origin)
        try:
            count = webauthn.verify_authentication(sent, question, passkey.key, passkey.count)
        except webauthn.WrongAnswer as problem:
            raise WrongPasskey from problem
        self._use(challenge)
        if count != passkey.count:
            self._count(person.name, passkey.id, count)
        return person

    def add(self, name: str, passkey: Passkey) -> None:
        """Give an account one more passkey. Raises InvalidParams above MAX_PASSKEYS, UnknownPerson."""

        def added(person: Person) -> Person:
            if len(person.passkeys) >= MAX_PASSKEYS:
                raise InvalidParams(f"an account has at most {MAX_PASSKEYS} passkeys: remove one first")
            return person.model_copy(update={"passkeys": (*person.passkeys, passkey)})

        self._people.change(name, added)

    def _count(self, name: str, id: str, count: int) -> None:
        def counted(person: Person) -> Person:
            passkeys = tuple(
                one.model_copy(update={"count": max(one.count, count)}) if one.id == id else one
                for one in person.passkeys
            )
            return person.model_copy(update={"passkeys": passkeys})

        self._people.change(name, counted)

    def _find(self, sent: dict[str, Any]) -> tuple[Person, Passkey]:
        response = sent.get("response")
        handle = response.get("userHandle") if isinstance(response, dict) else None
        try:
            name = urlsafe_b64decode(f"{handle}==").decode("ascii") if isinstance(handle, str) else ""
        except ValueError:
            name = ""
        person = self._people.find(name)
        for passkey in () if person is None else person.passkeys:
            if passkey.id == sent.get("id") and person is not None:
                return person, passkey
        raise WrongPasskey

    def _ticket(self, use: str, name: str, challenge: bytes) -> str:
        return str(self._signer.dumps([use, name, _encode(challenge)]))

    def _challenge(self, use: str, name: str, ticket: str) -> bytes:
        try:
            known_use, known_name, challenge = self._signer.loads(ticket[:1024], max_age=CHALLENGE_SECONDS)
        except (BadData, ValueError, TypeError) as problem:
            raise WrongPasskey from problem
        if (known_use, known_name) != (use, name):
            raise WrongPasskey
        return urlsafe_b64decode(f"{challenge}==")

    def _use(self, challenge: bytes) -> None:
        topic = PASSKEY_CHALLENGES + challenge.hex()
        try:
            self._journal.append_all([(topic, b"used", 2.0 * CHALLENGE_SECONDS)], {topic: 0})
        except StaleUpdate as problem:
            raise WrongPasskey from problem


def _load_webauthn() -> Any:
    from patchbay.access.people import webauthn_ceremonies

    return webauthn_ceremonies


def _parse(answer: str) -> dict[str, Any]:
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise InvalidParams(f"the answer of the passkey is longer than {MAX_ANSWER_CHARACTERS} characters")
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError as problem:
        raise InvalidParams("the answer of the passkey is not JSON") from problem
    if not isinstance(found, dict):
        raise InvalidParams("the answer of the passkey is not a JSON object")
    return found


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
