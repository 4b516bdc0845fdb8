"""Two threads of a hub scan the watched folder: the watcher, and a page that has changed a file."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SERVERS
from tests.waiting import BOUND

Batch = Mapping[tuple[str, str], bytes]


class AnnouncedLock:
    """A lock that releases `asked` for each thread that asks for it."""

    def __init__(self, asked: threading.Semaphore) -> None:
        self._asked = asked
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._asked.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_scan_waits_for_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """34.20: a second scan in the middle of the first saw files without contents, and failed or withdrew servers."""
    (tmp_path / "hello.py").write_text('def hello() -> str:\n    """Say hello."""\n    return "hello"\n')
    (tmp_path / "hello.mcp.json").write_text('{"timeout": 5}')
    store: Store = MemoryStore()
    folder = WatchedFolder(store, tmp_path)
    asked, reached, go = threading.Semaphore(0), threading.Event(), threading.Event()
    monkeypatch.setattr(folder, "_scanning", AnnouncedLock(asked))
    store_batch = folder._store_batch

    def store_later(batch: Batch) -> None:
        if batch:
            reached.set()
            go.wait(BOUND)
        store_batch(batch)

    monkeypatch.setattr(folder, "_store_batch", store_later)
    folder._settling.compare = lambda files: frozenset()  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(folder.scan)
        assert reached.wait(BOUND) and asked.acquire(timeout=BOUND)
        second = pool.submit(folder.scan)
        asked_again = asked.acquire(timeout=BOUND)
        go.set()
        assert asked_again
        assert (first.result(BOUND), second.result(BOUND)) == (True, False)
    assert store.names.get(SERVERS + "hello") is not None
    assert folder.refused == {}
