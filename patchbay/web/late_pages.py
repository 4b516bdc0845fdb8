"""The pages of the hub as a WSGI application whose parts are loaded at the first request for a page.

A hub serves MCP from its start. Its pages need templates, Markdown, colours and sign-in, which take longer to load than
the rest of the hub.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

from patchbay.wire.replies.reply import StartResponse

log = logging.getLogger(__name__)


class PagesNotLoaded(RuntimeError):
    """The parts of the pages could not be imported or registered: a defect of the installation or of the hub."""


class LatePages:
    """The WSGI application of `app`. `add_pages` registers its blueprints and may be slow.

    It is called once, before the first request; requests that come meanwhile wait. When it fails, no request gets a
    page: each raises PagesNotLoaded with the first error as its cause.
    """

    def __init__(self, app: Flask, add_pages: Callable[[], None]) -> None:
        self._wsgi_app = app.wsgi_app
        self._add_pages = add_pages
        self._lock = threading.Lock()
        self._problem: Exception | None = None
        self._is_loaded = False
        self._preparations: list[Callable[[], None]] = []

    def load(self) -> None:
        """Load the pages, if they are not loaded. Raises PagesNotLoaded."""
        if not self._is_loaded:
            with self._lock:
                self._load_once()

    def prepare(self, run: Callable[[], None]) -> None:
        """Run a preparation of the pages as soon as they are loaded, which is now if they are. Its error is logged."""
        with self._lock:
            if not self._is_loaded:
                self._preparations.append(run)
                return
        _run_logged(run)

    def _load_once(self) -> None:
        if self._is_loaded:
            return
        if self._problem is None:
            self._problem = self._load()
        if self._problem is not None:
            raise PagesNotLoaded("the pages of this hub could not be loaded") from self._problem

    def _load(self) -> Exception | None:
        """Add the pages, then prepare them; returns the error that kept them from being added."""
        try:
            self._add_pages()
        except Exception as problem:
            return problem
        for run in self._preparations:
            _run_logged(run)
        self._is_loaded = True
        return None

    def __call__(self, environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        self.load()
        return self._wsgi_app(environ, start_response)


def _run_logged(run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        log.exception("a preparation of the pages failed; they are served without it")
