"""Failures between a client and a server, as branches of the package's tree of errors.

    PatchbayError
    ├── McpFailure             the server answered with a JSON-RPC error: its code, message and data, unchanged
    │   └── HttpRefused        the server answered with an HTTP status of 400 or more and without a JSON-RPC error
    └── Unreachable            the server gave no answer: no such program, refused, ended, or not MCP
        ├── ServerTimeout      the server did not answer in time
        ├── SessionLost        the server has ended the session, and did not carry out the request
        ├── NotServed          the address answers 404: nothing is there, or nothing that the caller may see
        ├── NoMcpServer        the address is no MCP server: an HTTP API, or a page for browsers
        └── SignInNeeded       a person has to sign in; the message names the command to run
            └── CredentialsRefused   the key or token that was sent is refused

`exit_code` is the exit code of a command that ends with the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.exit_codes import OVERDUE, SIGN_IN, UNREACHABLE

STDERR_LINES = "; its last lines on standard error:\n  "
"""What introduces the last lines of a program in a message; each line begins with two spaces."""

MAX_REASON_CHARACTERS = 300


class McpFailure(PatchbayError):
    """A JSON-RPC error as the server sent it: `code`, `message`, `data`."""

    status = 502

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


class HttpRefused(McpFailure):
    """An HTTP status of 400 or more without a JSON-RPC error. `data` has `httpStatus` and, if given, `retryAfter`."""

    def __init__(self, code: int, message: str, http_status: int, retry_after: int | None) -> None:
        after = {} if retry_after is None else {"retryAfter": retry_after}
        super().__init__(code, message, {"httpStatus": http_status, **after})
        self.http_status = http_status


class Unreachable(PatchbayError):
    """The server gave no answer, or an answer that is not MCP. The message says what was tried and what happened."""

    status = 502
    exit_code = UNREACHABLE


class ServerTimeout(Unreachable):
    """The server did not answer in time."""

    status = 504
    exit_code = OVERDUE


class SignInNeeded(Unreachable):
    """The server requires a person to sign in, and this program may not ask for it."""

    exit_code = SIGN_IN


class CredentialsRefused(SignInNeeded):
    """The server refuses the key or token in the header `Authorization`."""


class SessionLost(Unreachable):
    """The server has ended the session and refused the request for that reason: it did not carry it out.

    Source: MCP specification 2025-11-25, basic/transports, session management.
    """


class NotServed(Unreachable):
    """The address answers 404: no server is there, or none that the caller may see."""


class NoMcpServer(Unreachable):
    """The address is no MCP server: an HTTP API describes itself there, or it answers with another media type."""


def describe_briefly(message: str) -> str:
    """Return the message of a failure as one line of at most MAX_REASON_CHARACTERS.

    It ends with the last line of the program's standard error. Calls, pages and commands of a hub all show a failed
    upstream server with these words.
    """
    what, _, lines = message.partition(STDERR_LINES)
    said = [line.strip() for line in lines.splitlines() if line.strip()]
    last = f"; its last line on standard error: {said[-1]}" if said else ""
    what = what.partition("\n")[0]
    return f"{what[: MAX_REASON_CHARACTERS - min(len(last), MAX_REASON_CHARACTERS // 2)]}{last}"[:MAX_REASON_CHARACTERS]


def get_retry_after(data: Any) -> int | None:
    """Return the seconds that a server asks to wait, from the `data` of its error; None when it asks for nothing."""
    found = data.get("retryAfter") if isinstance(data, Mapping) else None
    return found if type(found) is int and found >= 0 else None
