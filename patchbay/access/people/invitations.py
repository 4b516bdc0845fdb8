"""Invitations: links with which a person makes an account, or gives an account new credentials. Each works once.

A link holds the name and the generation of its credentials, signed with the key of the hub. Its first use changes the
generation, so that a second use, and every other invitation of the same person, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from itsdangerous import BadData

from patchbay.access.people.people import People, parse_name
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import Refused

INVITATION_SECONDS = 3 * 24 * 3600
"""Seconds that an invitation is valid."""

MAX_INVITATION_CHARACTERS = 1024


class WrongInvitation(Refused):
    """The invitation was used, is too old, was withdrawn, or comes from another hub."""

    def __init__(self) -> None:
        super().__init__("this invitation was used before, is too old or was withdrawn: ask the operator for a new one")


@dataclass(frozen=True, slots=True)
class Invitation:
    """A valid invitation. `has_account` says that it replaces the credentials of an account."""

    name: str
    generation: str
    has_account: bool


class Invitations:
    """The invitations of one hub; `key` is its secret key."""

    def __init__(self, people: People, key: bytes) -> None:
        self._people = people
        self._signer = timed_serializer(key, "invitation", people.now, SHA256)

    def make(self, name: str) -> str:
        """Make the path of a new link for this name. Raises InvalidParams for a text that is not a name."""
        name = parse_name(name)
        return "/invitation?key=" + self._signer.dumps([name, self._people.generation(name)])

    def read(self, text: str) -> Invitation:
        """Check a link; it stays valid. Raises WrongInvitation."""
        if len(text) > MAX_INVITATION_CHARACTERS:
            raise WrongInvitation
        try:
            name, generation = self._signer.loads(text, max_age=INVITATION_SECONDS)
        except (BadData, ValueError, TypeError) as problem:
            raise WrongInvitation from problem
        if self._people.generation(name) != generation:
            raise WrongInvitation
        return Invitation(name, generation, self._people.find(name) is not None)
