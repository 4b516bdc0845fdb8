"""The interface of a way in which a server behind this hub gets a credential of each caller: the field `way`.

A module of `ways/` has the row of each way. What mounted servers and HTTP APIs need of it is a `CredentialWay`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from patchbay.activation import Call
from patchbay.caller_accounts.credentials import CallerCredential, CallerCredentials, Upstream
from patchbay.caller_accounts.fields import CredentialField
from patchbay.events import Event

Reach = Literal["url", "api", "program", "profile"]
"""What a configuration mounts: an MCP server at a URL, an HTTP API, a program, or what a profile says later."""

Fields = Mapping[str, Any]
Require = Generator[Event, Any, CallerCredential]


@dataclass(frozen=True, slots=True)
class WaySettings:
    """The fields about credentials of callers in one configuration, without those of `oauth`.

    `fields` is what callers enter, `forward` names the headers of their requests that go on. `trust` is SAME_ISSUER if
    the header Authorization goes on too.
    """

    name: str
    fields: tuple[CredentialField, ...] = ()
    forward: tuple[str, ...] = ()
    trust: str = ""

    def list_places(self) -> set[tuple[str, str]]:
        """Return the headers and pairs of the query that the credential sets, as place and name in lower case."""
        named: set[tuple[str, str]] = {(one.place, one.target.lower()) for one in self.fields}
        named |= {("header", name.lower()) for name in self.forward}
        return named or {("header", "authorization")}


class CredentialWay(Protocol):
    """How the callers of one mounted server get their credentials there. Thread-safe."""

    @property
    def upstream(self) -> Upstream:
        """The server. Raises ConfigError for a missing profile or variable."""
        ...

    @property
    def is_stored(self) -> bool:
        """Whether callers connect an account on a page of the hub."""
        ...

    @property
    def needs_caller_for_lists(self) -> bool:
        """Whether the lists of the server are read with the credential of a caller."""
        ...

    def require(self, call: Call, refused: str = "") -> Require:
        """Return the credential of the caller of a call, who is asked for it first if needed.

        `refused` is the id of a credential that the server has just refused; it is not returned again. Raises
        ToolFailed with what the caller does, Unreachable.
        """
        ...

    def explain(self, call: Call) -> str:
        """Say what the caller of a call does for a credential that the server accepts."""
        ...

    def is_current(self, principal: str, id: str) -> bool:
        """Whether the credential of a principal with this id may still be used."""
        ...

    def has_for_lists(self) -> bool:
        """Whether the lists can be read now."""
        ...

    def find_for_lists(self, tries: int) -> CallerCredential | None:
        """Return the credential for reading the lists, None to read them without one. Raises SignInNeeded.

        After failures (`tries`) it is that of another caller, where there is one.
        """
        ...


@dataclass(frozen=True, slots=True)
class WayContext:
    """What a way knows of its mount. `credentials` is None for a hub that keeps no accounts of callers.

    `find_upstream` returns the server, and raises ConfigError for a configuration that cannot say it.
    """

    name: str
    settings: WaySettings
    find_upstream: Callable[[], Upstream]
    credentials: CallerCredentials | None


@dataclass(frozen=True, slots=True)
class Way:
    """The row of a way. `sentence` says it to people; `fields` are those of a configuration that belong to it.

    `check` gets a configuration, what it mounts, and where it stands; it raises ConfigError.
    """

    name: str
    sentence: str
    fields: frozenset[str]
    check: Callable[[Fields, Reach, str], None]
    open: Callable[[WayContext], CredentialWay]
