"""The Flask application: how it is assembled."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from werkzeug.routing import Map

from patchbay.python_functions.syntax import SYNTAX_LOCK
from tests.hubs import Hub


def test_no_thread_reads_a_definition_while_routes_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython before 3.11.8 and 3.12.1 fails when two threads build syntax trees; Werkzeug builds one for a route."""
    could_parse: list[bool] = []
    add = Map.add

    def try_lock() -> None:
        found = SYNTAX_LOCK.acquire(blocking=False)
        could_parse.append(found)
        if found:
            SYNTAX_LOCK.release()

    def add_and_look(routes: Map, factory: Any) -> None:
        if factory.rule == "/history":
            other = threading.Thread(target=try_lock)
            other.start()
            other.join()
        add(routes, factory)

    monkeypatch.setattr(Map, "add", add_and_look)
    with closing(Hub(tmp_path)) as hub:
        hub.app.parts.pages.load()
    assert could_parse == [False]
