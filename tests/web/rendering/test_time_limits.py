"""Work of a page that does not end is broken off, and others go on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.web.rendering import highlighting, render_routes
from patchbay.web.rendering.highlighting import highlight_lines
from patchbay.web.rendering.time_limits import MAX_CONCURRENT_JOBS, TookTooLong, run_within
from tests.hubs import Hub
from tests.waiting import BOUND, until


def test_a_result_in_time_is_returned_and_an_exception_raised() -> None:
    assert run_within(BOUND, lambda: "done", "the text") == "done"
    with pytest.raises(ZeroDivisionError):
        run_within(BOUND, lambda: 1 / 0, "the text")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_function_that_does_not_end_is_stopped_with_its_thread() -> None:
    threads: list[threading.Thread] = []

    def spin() -> None:
        threads.append(threading.current_thread())
        while True:
            pass

    for _ in range(MAX_CONCURRENT_JOBS + 1):  # a place that was not given back would be missed by the last one
        with pytest.raises(TookTooLong, match=r"the text takes longer than 0.2 seconds to render"):
            run_within(0.2, spin, "the text")
        until(lambda: not threads[-1].is_alive(), "the thread ends")
    assert run_within(BOUND, lambda: "done", "the text") == "done"


def test_a_page_gets_503_and_the_time_of_the_next_try_while_all_places_for_rendering_are_taken(tmp_path: Path) -> None:
    hub, end = Hub(tmp_path), threading.Event()
    running = threading.Semaphore(0)

    def hold() -> None:
        running.release()
        assert end.wait(BOUND)

    with closing(hub), ThreadPoolExecutor(MAX_CONCURRENT_JOBS) as pool:
        jobs = [pool.submit(run_within, BOUND, hold, "the text") for _ in range(MAX_CONCURRENT_JOBS)]
        try:
            assert all(running.acquire(timeout=BOUND) for _ in jobs)
            answer = hub.client.post("/render/markdown", data=b"# A")
        finally:
            end.set()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "8 other texts are being rendered" in answer.get_data(as_text=True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_text_that_takes_long_to_colour_is_shown_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """25 KB of line feeds took 24 seconds."""
    text = "# Heading\n" + "\n" * 25_000
    assert highlight_lines("# Heading\n", "markdown") == ((("t-keyword", "# Heading"),),)
    monkeypatch.setattr(highlighting, "MAX_COLOURING_SECONDS", 0.05)
    lines = highlight_lines(text, "markdown")
    assert lines[0] == (("", "# Heading"),)
    assert len(lines) == text.count("\n")


# Python reports and ignores an exception that reaches a thread inside the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_markdown_that_takes_long_to_render_is_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    monkeypatch.setattr(render_routes, "MAX_RENDERING_SECONDS", 0.05)
    try:
        answer = hub.client.post("/render/markdown", data=b"|a|\n|-|\n" * 12_000)
        assert answer.status_code == 413
        assert "the Markdown takes longer than 0.05 seconds to render" in answer.get_data(as_text=True)
        assert hub.client.post("/render/markdown", data=b"# A").status_code == 200
    finally:
        hub.close()
