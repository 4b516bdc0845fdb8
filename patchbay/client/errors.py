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

import re
from collections.abc import Mapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.exit_codes import OVERDUE, SIGN_IN, UNREACHABLE

STDERR_LINES = "; its last lines on standard error:\n  "
"""What introduces the last lines of a program in a message; each line begins with two spaces."""

MAX_REASON_CHARACTERS = 300
MAX_OUTPUT_CHARACTERS = 500
"""Characters of one line of a program's standard error."""

_NPM_ERROR = re.compile(r"npm (error|ERR!)")
_NPM_CODE = re.compile(r"npm (error|ERR!) (code |errno |syscall |path )")
_NODE_END = re.compile(r"Node\.js v\d")
_NODE_ERROR = re.compile(r"(Uncaught )?[A-Za-z]*Error\b.*:")


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

    names_server = True
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
    """The address answers 404: no server is there, or none that the caller may see.

    `speaks_mcp` says that the answer was a JSON-RPC error, so that other MCP servers are at this host.
    """

    def __init__(self, message: str, speaks_mcp: bool = False) -> None:
        super().__init__(message)
        self.speaks_mcp = speaks_mcp


class NoMcpServer(Unreachable):
    """The address is no MCP server: an HTTP API describes itself there, or it answers with another media type."""


def describe_briefly(message: str) -> str:
    """Return the message of a failure as one line of at most MAX_REASON_CHARACTERS.

    It ends with the line of the program's standard error that says the cause, which is mostly the last one. Calls,
    pages and commands of a hub all show a failed upstream server with these words.
    """
    said = list_output(message)
    telling = _find_cause(said) if said else ""
    where = "its last line on standard error" if said and telling == said[-1] else "on standard error"
    last = f"; {where}: {telling}" if telling else ""
    what = message.partition(STDERR_LINES)[0].partition("\n")[0]
    return f"{what[: MAX_REASON_CHARACTERS - min(len(last), MAX_REASON_CHARACTERS // 2)]}{last}"[:MAX_REASON_CHARACTERS]


def list_output(message: str) -> list[str]:
    """Return the last lines of a program's standard error that the message of a failure has, without empty ones."""
    lines = message.partition(STDERR_LINES)[2].splitlines()
    return [line.strip()[:MAX_OUTPUT_CHARACTERS] for line in lines if line.strip()]


def _find_cause(lines: list[str]) -> str:
    """Return the line that says why a program failed.

    npm and npx begin with it, below a code, and end with advice; Node.js has it above the stack; others end with it.
    """
    of_npm = [line for line in lines if _NPM_ERROR.match(line)]
    if of_npm:
        return next((line for line in of_npm if not _NPM_CODE.match(line)), of_npm[0])
    if _NODE_END.match(lines[-1]):
        return next((line for line in reversed(lines) if _NODE_ERROR.match(line)), lines[-1])
    return lines[-1]


def get_retry_after(data: Any) -> int | None:
    """Return the seconds that a server asks to wait, from the `data` of its error; None when it asks for nothing."""
    found = data.get("retryAfter") if isinstance(data, Mapping) else None
    return found if type(found) is int and found >= 0 else None
