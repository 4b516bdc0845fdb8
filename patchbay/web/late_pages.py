"""The pages of the hub as a WSGI application whose parts are loaded at the first request for a page.

A hub serves MCP from its start. Its pages need templates, Markdown, colours and sign-in, which take longer to load than
the rest of the hub.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

from patchbay.wire.responses import StartResponse


class LatePages:
    """The WSGI application of `app`. `add_pages` registers its blueprints and may be slow.

    It is called once, before the first request, and then the functions of `after_load`. Requests that come meanwhile
    wait. An error of `add_pages` is raised by each request.
    """

    def __init__(self, app: Flask, add_pages: Callable[[], None]) -> None:
        self._wsgi_app = app.wsgi_app
        self._add_pages = add_pages
        self._lock = threading.Lock()
        self._problem: Exception | None = None
        self._is_loaded = False
        self.after_load: list[Callable[[], None]] = []

    def load(self) -> None:
        """Load the pages, if they are not loaded. Raises the error of the first attempt."""
        if self._is_loaded:
            return
        with self._lock:
            if self._problem is not None:
                raise self._problem
            if not self._is_loaded:
                self._load()

    def _load(self) -> None:
        try:
            self._add_pages()
        except Exception as problem:
            self._problem = problem
            raise
        self._is_loaded = True
        for each in self.after_load:
            each()

    def __call__(self, environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        self.load()
        return self._wsgi_app(environ, start_response)
