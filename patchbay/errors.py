"""The errors of the package as one tree, with the JSON-RPC code and the HTTP status of each.

    PatchbayError                     -32603  500   the hub itself failed
    ├── ParseError                    -32700  400   not JSON
    ├── InvalidRequest                -32600  400   not a JSON-RPC message
    │   └── Refused                   -32600  403   the caller has no permission
    │       └── OverQuota             -32600  429   a quota of the caller or of the server is used up
    ├── MethodNotFound                -32601  404
    ├── InvalidParams                 -32602  400
    │   └── ResourceNotFound          -32602  400   -32002 up to 2025-11-25
    ├── HeaderMismatch                -32020  400   2026-07-28 only
    ├── MissingCapability             -32021  400   2026-07-28 only
    ├── UnsupportedVersion            -32022  400
    ├── EventNotFound                 -32023  400   no such event type, or no such subscription (SEP-3415)
    ├── EventForbidden                -32024  403   the principal may not have this subscription
    ├── EventsExhausted               -32025  429   a limit on subscriptions is reached
    ├── EventUnsupported              -32026  400   an option that an event type does not have
    ├── CallbackFailed                -32027  400   the address of a webhook does not answer, or not as it has to
    ├── UnknownServer                 -32600  404
    │   └── UnavailableServer         -32600  404   disabled, or its definition is broken
    ├── UnknownSession                -32600  404
    ├── ReadOnly                      -32600  405   nothing can be changed in this boot
    ├── TooLarge                      -32600  413
    ├── ProtocolError                 -32603  200   a tool's own JSON-RPC error, on purpose
    ├── ToolFailed                                  a tool's own failure: a result, never a JSON-RPC error
    │   ├── ServerFailed                            the hub has no result of the server of a tool
    │   ├── TimedOut
    │   └── WrongArguments                          reported like arguments that do not fit the schema
    └── ContentError                  -32603  500
        ├── StaleUpdate               -32600  409   another change came first
        ├── BadCid                    -32602  400   a string that is not a CID of this hub
        ├── MissingBlob               -32602  404   names every CID that the store lacks
        ├── FolderInUse                             another hub uses the data folder, or it cannot be written
        ├── StoreFailed                             the database of the hub, or its disk
        ├── CorruptBlob                             bytes that do not hash to their CID
        └── ConfigError                             names the file, the path inside it, the expected value

`code` is the JSON-RPC code, `status` the HTTP status unless the transport knows a more exact one, `exit_code` the exit
code of a command that ends with the error, `retry_after` the seconds to wait before another try, if known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchbay.exit_codes import FAILED, USAGE


class PatchbayError(Exception):
    """A failure with a message for people and, optionally, `data` for programs (a JSON value).

    `names_server` says that the message is the hub's own and names a server, or says what is wrong with it: it is only
    for callers who may see that server.
    """

    names_server: bool = False
    code: int = -32603
    status: int = 500
    exit_code: int = FAILED
    retry_after: int | None = None

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.message = str(message)  # an author may pass another exception as the message
        self.data = data


class ParseError(PatchbayError):
    code, status = -32700, 400


class InvalidRequest(PatchbayError):
    code, status = -32600, 400


class Refused(InvalidRequest):
    status = 403


class OverQuota(Refused):
    """A quota is used up; the caller may try again after `retry_after` seconds (RFC 6585, section 4)."""

    status = 429
    retry_after: int

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an HTTP response with this error (RFC 9110, section 10.2.3)."""
        return {"Retry-After": str(self.retry_after)}


class MethodNotFound(PatchbayError):
    code, status = -32601, 404


class InvalidParams(PatchbayError):
    code, status = -32602, 400
    exit_code = USAGE


class ResourceNotFound(InvalidParams):
    """No resource under this URI; `data` is `{"uri": ...}`."""

    def __init__(self, uri: str, why: str = "no such resource") -> None:
        super().__init__(f"{why}: {uri}", {"uri": uri})
        self.uri = uri


class HeaderMismatch(PatchbayError):
    code, status = -32020, 400


class MissingCapability(PatchbayError):
    """The caller did not declare a capability that the call needs; `required` is a ClientCapabilities object.

    `names` has its members as words.
    """

    code, status = -32021, 400

    def __init__(self, required: dict[str, Any]) -> None:
        self.names = ", ".join(sorted(set(required) - {"extensions"}) + sorted(required.get("extensions", ())))
        sentence = f"the client has to declare this capability first: {self.names}"
        super().__init__(sentence, {"requiredCapabilities": required})
        self.required = required


class UnsupportedVersion(PatchbayError):
    code, status = -32022, 400

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(
            f"protocol version {requested!r} is not served here; use one of {', '.join(supported)}",
            {"supported": list(supported), "requested": requested},
        )


class EventNotFound(PatchbayError):
    """No event type, or no subscription (`kind`), of this description."""

    code, status = -32023, 400

    def __init__(self, message: str, kind: str = "event") -> None:
        super().__init__(message, {"kind": kind})


class EventForbidden(PatchbayError):
    code, status = -32024, 403


class EventsExhausted(PatchbayError):
    """The limit named `limit` is reached; `most` is its value."""

    code, status = -32025, 429

    def __init__(self, message: str, limit: str, most: int) -> None:
        super().__init__(message, {"limit": limit, "max": most})


class EventUnsupported(PatchbayError):
    """A feature that an event type does not have; `data` names it."""

    code, status = -32026, 400


class CallbackFailed(PatchbayError):
    """The address of a webhook failed; `reason` is a category of SEP-3415, never a text of that address."""

    code, status = -32027, 400

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, {"reason": reason})
        self.reason = reason


class UnknownServer(PatchbayError):
    names_server = True
    code, status = -32600, 404
    exit_code = USAGE


class UnavailableServer(UnknownServer):
    """The server is known but disabled or broken."""


NO_SESSION = "no such session here"
"""The beginning of the message of UnknownSession, by which a client tells it from other errors with its status."""


class UnknownSession(PatchbayError):
    code, status = -32600, 404


class ReadOnly(PatchbayError):
    code, status = -32600, 405


class TooLarge(PatchbayError):
    code, status = -32600, 413


class ProtocolError(PatchbayError):
    """An author raises it to answer with a JSON-RPC error instead of a result with `isError`.

    `code` is a JSON-RPC code: -32603 (internal error), or a code of the author outside -32768 to -32000.
    """

    status = 200

    def __init__(self, message: str, code: int = -32603, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


class ToolFailed(PatchbayError):
    """A failure of a tool; the caller gets a result with `isError`."""


class ServerFailed(ToolFailed):
    """The hub has no result of the server of a tool. The message names the server.

    `hidden` says the same without a name, as the end of a sentence, for callers who may not see the server.
    """

    names_server = True
    hidden: str = ""

    def __init__(self, message: str, data: Any = None, hidden: str = "") -> None:
        super().__init__(message, data)
        self.hidden = hidden


class TimedOut(ToolFailed):
    """The deadline of a call passed."""


class WrongArguments(ToolFailed):
    """Arguments that fit the tool's schema but are wrong, such as a missing argument that another argument requires.

    The caller's revision decides how they are reported: as a JSON-RPC error (-32602) or as a result with `isError`.
    """


class ContentError(PatchbayError):
    """An error in stored content."""

    exit_code = USAGE


class StoreAway(ContentError):
    """The store does not answer; the same request may succeed a few seconds later (RFC 9110, section 15.6.4)."""

    status, retry_after = 503, 5

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an HTTP response with this error (RFC 9110, section 10.2.3)."""
        return {"Retry-After": str(self.retry_after)}


class StaleUpdate(ContentError):
    """A name no longer points to the CID that a change expected; nothing was changed."""

    code, status = -32600, 409


class StoreFailed(ContentError):
    """The database of the hub failed. `message` is for callers; `str()`, for logs and commands, names the file."""

    def __init__(self, message: str, for_operator: str) -> None:
        super().__init__(for_operator)
        self.message = message


class BadCid(ContentError):
    code, status = -32602, 400


class MissingBlob(ContentError):
    """One or more CIDs are not in the store; `cids` lists all of them."""

    code, status = -32602, 404

    def __init__(self, cids: Sequence[str], wanted_by: str = "") -> None:
        tail = f" (wanted by {wanted_by})" if wanted_by else ""
        super().__init__(f"not in the store: {', '.join(cids)}{tail}", {"cids": list(cids)})
        self.cids = tuple(cids)


class CorruptBlob(ContentError):
    """Bytes that do not hash to the CID that they were stored or sent under."""


class FolderInUse(ContentError):
    """The data folder belongs to another hub that is running."""


class ConfigError(ContentError):
    """An error in a configuration.

    `where` is a file or CID, `path` the place inside it (`tools.echo.inputSchema`), `expected` a sentence.
    """

    names_server = True

    def __init__(self, where: str, path: str, expected: str) -> None:
        place = f"{where}: at {path}" if path else where
        super().__init__(f"{place}: {expected}", {"where": where, "path": path, "expected": expected})
        self.where = where
        self.path = path
        self.expected = expected
