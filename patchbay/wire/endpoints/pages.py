"""The pages of the hub, which are the last endpoint: a WSGI application gets an environ that is made from the request.

Source: PEP 3333.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from patchbay.wire.replies.reply import Reply, StartResponse
from patchbay.wire.requests.request import Request
from patchbay.wire.requests.wsgi import make_environ

Environ = dict[str, Any]


@dataclass(slots=True)
class PageReply(Reply):
    """The answer of a page: `headers` are all of its headers, and `line` is its status with its phrase."""

    line: str = ""

    @property
    def head(self) -> list[tuple[str, str]]:
        """All headers of the answer."""
        return self.headers

    @property
    def status_line(self) -> str:
        """The status and its phrase."""
        return self.line


class Pages:
    """Answers requests by a WSGI application."""

    def __init__(self, app: Callable[[Any, StartResponse], Iterable[bytes]]) -> None:
        self.app = app

    def __call__(self, request: Request) -> Reply:
        """Return the answer of the application."""
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(line: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started.append((line, headers))

        body = self.app(make_environ(request), start_response)
        line, headers = started[-1]
        return PageReply(int(line[:3]), body, headers=headers, line=line)
