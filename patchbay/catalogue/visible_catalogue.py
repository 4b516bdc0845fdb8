"""What the parts of the hub ask of the catalogue as a caller may see it, and of the rights behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.contents.reading import ReadableContents
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import RENAMED_FROM, Descriptor
from patchbay.store import Store


class Visibility(Protocol):
    """The rights of a caller. Callers with equal digests have the same rights; `is_unlimited` means all rights."""

    digest: str
    is_unlimited: bool

    def allows(self, action: str, server: str, entry: str = "") -> bool:
        """Whether an action on an entry of a server (or, without one, on the server as a whole) is allowed."""
        ...

    def forbids(self, server: str, entry: str) -> bool:
        """Whether a denial forbids an entry of a server, whatever is granted."""
        ...

    def concerns(self, server: str) -> bool:
        """Whether something on a server that is not here could be allowed."""
        ...

    def only_about(self, server: str) -> Self:
        """Return the same rights, for questions about one server."""
        ...


class VisibleCatalogue(Protocol):
    """The catalogue as a caller may see it. `Catalogue` has the meaning of the methods without a text here.

    A server, a version or an entry that the caller may not see gives the same answer as one that does not exist.
    """

    store: Store

    @property
    def readonly(self) -> bool: ...

    @property
    def contents(self) -> ReadableContents: ...

    @property
    def shows_everything(self) -> bool:
        """Whether the caller may see the whole configuration: every server, every variable, the history."""
        ...

    def find(self, name: str) -> Server: ...

    def pinned(self, name: str, cid: str, operator: bool = False) -> Server: ...

    def version(self, name: str, cid: str) -> Server: ...

    def aggregate(self) -> Aggregate: ...

    def all(self) -> list[Server]: ...

    def revoked_versions(self, name: str, versions: Iterable[str | None]) -> dict[str, str]: ...

    def shows_source(self, name: str) -> bool:
        """Whether the caller may see the definition, the configuration and the past of a server."""
        ...

    def may_read(self, server: str, uri: str) -> bool:
        """Whether the caller may read a URI that a mounted server does not list."""
        ...

    def forbids(self, server: str, uri: str) -> bool:
        """Whether a denial forbids a URI that a template of a server matches."""
        ...

    def hears_of(self, server: str, uri: str | None = None) -> bool:
        """Whether the caller gets notifications about a server, or about a resource of it."""
        ...


class VisibleToAll:
    """The answers of the catalogue to a caller without limits."""

    shows_everything = True

    def shows_source(self, name: str) -> bool:
        """Return True: every source is shown."""
        return True

    def may_read(self, server: str, uri: str) -> bool:
        """Return True: every URI may be read."""
        return True

    def forbids(self, server: str, uri: str) -> bool:
        """Return False: no URI is forbidden."""
        return False

    def hears_of(self, server: str, uri: str | None = None) -> bool:
        """Return True: every notification is sent."""
        return True


class Forbidding(Protocol):
    """Says whether a denial forbids an entry of a server."""

    def forbids(self, server: str, entry: str, /) -> bool: ...


def is_denied_by_older_name(rights: Forbidding, one: Descriptor) -> bool:
    """Whether a denial covers the name that a renamed tool has at its mounted server."""
    older = one.target.get(RENAMED_FROM)
    return older is not None and rights.forbids(*older)
