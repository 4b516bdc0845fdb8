"""The sender and the terms of a message: the facts from the transport, and the result of admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from patchbay.access.principals import LOCAL, Principal
from patchbay.activation import find_no_header
from patchbay.messages.versions import Revision


@dataclass(slots=True)
class LegacySession:
    """A legacy session: the fields of its signed id (`nonce` to `opened`), and later changes (`level`, `ended`).

    `opened` is Unix time in seconds; `id` is the whole signed string; `client` is the client's own name and version.
    """

    id: str
    nonce: str
    endpoint: str
    revision: Revision
    capabilities: Mapping[str, Any]
    principal: str
    opened: float
    level: str = "info"
    ended: bool = False
    subscribed: set[str] = field(default_factory=set)
    caught_up: bool = False
    client: str = ""


def is_owner() -> bool:
    """Say that the sender is the operator: it runs as the user who owns the data folder, with the token in it."""
    return True


class TransportInfo(NamedTuple):
    """The facts about a message that the transport knows besides the body. A tuple, because each call makes one.

    `endpoint` is the address below /mcp/ (`echo`, `echo@bafk...`). `headers` maps lower-case names to trimmed values;
    None for a transport without headers (stdio). `sender` is the principal that sends the message. `streams` says that
    the transport can send more than one message back. `connection` names the only peer of this connection (stdio); None
    where many callers share request ids. `strict` says that a legacy request needs a session. `way` names the entry
    point if the headers do not show it. `operator` says that the sender is proved to be the operator; only addresses of
    the operator use it. `waits` says that the transport handles `store.Wait` itself, so that a waiting stream holds no
    thread. `find_base_url` returns the URL by which the sender reached the hub, "" without HTTP.
    `shows_raised` says whether the sender is proved to be the operator, who gets what the code of an author raised; it
    is asked only after a failure. `give_back_body` ends what the body of the request takes of the limits on bodies; a
    second call does nothing. `find_header` returns any header of the request by its name in lower case, for servers
    to which headers of callers go on.
    """

    endpoint: str
    headers: Mapping[str, str] | None = None
    sender: Principal = LOCAL
    streams: bool = True
    connection: str | None = None
    strict: bool = False
    way: str = ""
    operator: bool = False
    waits: bool = False
    find_base_url: Callable[[], str] = str
    shows_raised: Callable[[], bool] = bool
    give_back_body: Callable[[], object] = bool
    find_header: Callable[[str], str | None] = find_no_header

    @property
    def principal(self) -> str:
        """The id of the sender, to which sessions, streams, tasks and results are bound."""
        return self.sender.id

    @property
    def version(self) -> str | None:
        return self.headers.get("mcp-protocol-version") if self.headers is not None else None

    @property
    def session_id(self) -> str | None:
        return self.headers.get("mcp-session-id") if self.headers is not None else None


class Caller(NamedTuple):
    """The terms of one message: revision, capabilities, lowest log level (None: no log messages), session or None.

    A tuple, because each message makes one.
    """

    revision: Revision
    capabilities: Mapping[str, Any]
    log_level: str | None
    wire: TransportInfo
    session: LegacySession | None = None

    @property
    def owner(self) -> str | None:
        """The owner of this caller's request ids: its session or its connection. None: it cannot cancel by id."""
        return self.session.nonce if self.session is not None else self.wire.connection

    def extends(self, extension: str) -> bool:
        """Whether this message declares the extension with this id."""
        declared = self.capabilities.get("extensions")
        return isinstance(declared, dict) and isinstance(declared.get(extension), dict)
