"""The pages are loaded once, at the first request for one, also when many requests come at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from patchbay.web.late_pages import LatePages, PagesNotLoaded
from tests.hubs import Hub
from tests.waiting import BOUND

REQUESTS = 8


def test_first_requests_that_come_at_once_load_the_pages_once_and_get_their_pages(tmp_path: Path) -> None:
    with closing(Hub(tmp_path)) as hub, ThreadPoolExecutor(REQUESTS) as threads:
        begin = threading.Barrier(REQUESTS)

        def get(path: str) -> int:
            begin.wait(BOUND)
            return hub.app.test_client().get(path).status_code

        paths = ["/", "/servers", "/mcp", "/variables"] * (REQUESTS // 4)
        assert list(threads.map(get, paths)) == [200] * REQUESTS


def ignore(*_: Any) -> None:
    """Begin no response."""


def test_after_an_error_in_loading_the_pages_each_request_raises_it_and_they_are_not_loaded_again() -> None:
    attempts: list[int] = []

    def fail() -> None:
        attempts.append(1)
        raise ImportError("the installation lacks a module")

    pages = LatePages(Flask("pages"), fail)
    for _ in range(2):
        with pytest.raises(PagesNotLoaded) as found:
            pages({"PATH_INFO": "/"}, ignore)
        assert str(found.value.__cause__) == "the installation lacks a module"
    assert len(attempts) == 1


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_preparation_runs_once_after_the_pages_are_loaded(is_loaded: bool) -> None:
    """A shared hub loads its pages at its start, before the server adds the preparation."""
    order: list[str] = []
    pages = LatePages(Flask("pages"), lambda: order.append("load"))
    if is_loaded:
        pages.load()
    pages.prepare(lambda: order.append("prepare"))
    pages.load()
    pages.load()
    assert order == ["load", "prepare"]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_pages_are_served_when_a_preparation_fails(is_loaded: bool, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("no thread can be started")

    pages = LatePages(Flask("pages"), lambda: None)
    if is_loaded:
        pages.load()
    pages.prepare(fail)
    pages.load()
    assert "a preparation of the pages failed" in caplog.text and "no thread can be started" in caplog.text
