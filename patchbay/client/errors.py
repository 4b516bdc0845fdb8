"""Failures between a client and a server, as branches of the package's tree of errors.

    PatchbayError
    ├── McpFailure             the server answered with a JSON-RPC error: its code, message and data, unchanged
    └── Unreachable            the server gave no answer: no such program, refused, ended, or not MCP
        ├── ServerTimeout      the server did not answer in time
        ├── NotServed          the address answers 404: nothing is there, or nothing that the caller may see
        ├── NoMcpServer        the address is no MCP server: an HTTP API, or a page for browsers
        └── SignInNeeded       a person has to sign in; the message names the command to run
            └── CredentialsRefused   the key or token that was sent is refused

`exit_code` is the exit code of a command that ends with the error.
"""

from __future__ import annotations

from typing import Any

from patchbay.errors import PatchbayError
from patchbay.exit_codes import OVERDUE, SIGN_IN, UNREACHABLE


class McpFailure(PatchbayError):
    """A JSON-RPC error as the server sent it: `code`, `message`, `data`."""

    status = 502

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


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


class NotServed(Unreachable):
    """The address answers 404: no server is there, or none that the caller may see."""


class NoMcpServer(Unreachable):
    """The address is no MCP server: an HTTP API describes itself there, or it answers with another media type."""
