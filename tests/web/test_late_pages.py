"""The pages are loaded once, at the first request for one, also when many requests come at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from patchbay.web.late_pages import LatePages
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


def test_an_error_in_loading_the_pages_is_raised_by_each_request_and_they_are_not_loaded_again() -> None:
    attempts: list[int] = []

    def fail() -> None:
        attempts.append(1)
        raise ImportError("the installation lacks a module")

    pages = LatePages(Flask("pages"), fail)

    def start_response(*_: Any) -> None:
        raise AssertionError("there is nothing to answer")

    for _ in range(2):
        with pytest.raises(ImportError, match="lacks a module"):
            pages({"PATH_INFO": "/"}, start_response)
    assert len(attempts) == 1


def test_what_waits_for_the_pages_runs_after_they_are_loaded() -> None:
    order: list[str] = []
    pages = LatePages(Flask("pages"), lambda: order.append("load"))
    pages.after_load.append(lambda: order.append("prepare"))
    assert order == []
    pages.load()
    pages.load()
    assert order == ["load", "prepare"]
