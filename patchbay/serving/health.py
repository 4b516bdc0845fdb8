"""`/healthz`: every worker of the hub responds. `/readyz`: the process can take work, because the store responds and
the hub is not stopping. Both answer without the pages, which a start does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.serving.drain import Drain
from patchbay.settings import Settings
from patchbay.wire.replies.reply import Reply, StartResponse
from patchbay.wire.requests.security import check_host_and_origin


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
    """WSGI middleware: answers GET and HEAD of the two addresses, and passes all else to `others`.

    That is so for a request whose Host or Origin is refused too: the pages make the answer of a refusal.
    """

    def __init__(
        self, settings: Settings, health: Health, others: Callable[[Any, StartResponse], Iterable[bytes]]
    ) -> None:
        self._settings = settings
        self._answers = {"/healthz": health.is_alive, "/readyz": health.is_ready}
        self._others = others

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answers.get(environ["PATH_INFO"])
        if answer is None or environ["REQUEST_METHOD"] not in ("GET", "HEAD") or not self._is_allowed(environ):
            return self._others(environ, start_response)
        status, sentence = answer()
        headers = [("Cache-Control", "no-store")]
        return Reply(status, f"{sentence}\n".encode(), "text/plain; charset=utf-8", headers).send(start_response)

    def _is_allowed(self, environ: Mapping[str, Any]) -> bool:
        try:
            check_host_and_origin(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"), self._settings)
        except PatchbayError:
            return False
        return True
