"""What can go wrong between a client and a server that nobody here runs, as branches of the one tree of errors.

    PatchbayError
    ├── McpFailure       the server answered with a JSON-RPC error: its code, message and data, as they came
    └── Unreachable      there is no answer: no such program, refused, ended, not MCP; says what was seen
        ├── ServerTimeout      it took too long; says what was waited for
        └── SignInNeeded it wants a person to sign in, and there is none here; says what to run

Sources: REQUIREMENTS JN-1, JN-19; THREATS X18.
"""

from __future__ import annotations

from typing import Any

from patchbay.errors import PatchbayError


class McpFailure(PatchbayError):
    """A JSON-RPC error as the server sent it: `code`, `message`, `data`."""

    status = 502

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


class Unreachable(PatchbayError):
    """No answer comes from the server, or none that is MCP. The message says what was tried and what was seen."""

    status = 502


class ServerTimeout(Unreachable):
    """The server did not answer in time."""

    status = 504


class SignInNeeded(Unreachable):
    """The server wants a person to sign in, and this program may not ask one."""
