"""`/healthz`: every worker of the hub responds. `/readyz`: the process can take work, because the store responds and
the hub is not stopping. Both answer without the pages, which a start does not load.
"""

from __future__ import annotations

from collections.abc import Callable

from patchbay.serving.drain import Drain
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.request import Request


class Health:
    """What the two addresses answer: status 200 or 503, and a sentence.

    `check` returns the problem of the store, `warn` one with which the hub goes on, that of the bus.
    """

    def __init__(self, check: Callable[[], str | None], drain: Drain, warn: Callable[[], str | None]) -> None:
        self._check = check
        self._warn = warn
        self._drain = drain
        self._find_silent: Callable[[], str | None] = lambda: None

    def watch(self, find_silent: Callable[[], str | None]) -> None:
        """Have `/healthz` ask for the problem of all workers: a sentence, or None."""
        self._find_silent = find_silent

    def is_alive(self) -> tuple[int, str]:
        """Return the answer of `/healthz`."""
        problem = self._find_silent()
        return (503, problem) if problem else (200, "alive")

    def is_ready(self) -> tuple[int, str]:
        """Return the answer of `/readyz`."""
        problem = "the hub is stopping" if self._drain.is_draining else self._check()
        if problem:
            return 503, problem
        warning = self._warn()
        return 200, f"ready, but {warning}" if warning else "ready"


class HealthOverHttp:
    """Answers GET and HEAD of the two addresses."""

    def __init__(self, health: Health) -> None:
        self._answers = {"/healthz": health.is_alive, "/readyz": health.is_ready}

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one of another path or method."""
        return self._reply if request.path in self._answers and request.method in ("GET", "HEAD") else None

    def _reply(self, request: Request) -> Reply:
        status, sentence = self._answers[request.path]()
        headers = [("Cache-Control", "no-store")]
        return Reply(status, f"{sentence}\n".encode(), "text/plain; charset=utf-8", headers)
