"""Which process announces that a server's lists changed when two processes see the changes at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from patchbay.catalogue.versions import Versions
from patchbay.stores.memory import MemoryNames, MemoryStore

HELLO = 'def hello(name: str) -> str:\n    "Greet."\n    return name\n'


class InterruptedNames(MemoryNames):
    """Names in memory; `then` runs once after the next move, like another process that is faster."""

    then: Callable[[], Any] | None = None

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        seq = super().move(changes, who, why, expected)
        then, self.then = self.then, None
        if then:
            then()
        return seq


def test_a_change_is_announced_although_another_process_moves_the_name_right_after_it(bench: Any) -> None:
    """The process that moved the name announces the change; each of two changes is announced once."""
    bench.plug("hi", HELLO)
    first = bench.open().find("hi")
    second = replace(first, tools={})
    store = MemoryStore()
    store.names = names = InterruptedNames(threading.RLock(), store.blobs)
    slow, fast = Versions(store, "slow", 3600.0), Versions(store, "fast", 3600.0)
    lists = [replace(one, version="") for one in (first, second)]
    names.then = lambda: fast.announce("hi", lists[1])
    assert slow.announce("hi", lists[0])
    announced = [json.loads(entry.data)["kinds"] for entry in store.journal.read("changes/hi")]
    assert announced == [["tools"], ["tools"]]
    assert not fast.announce("hi", lists[1]), "what stands already is not told again"
    store.close()
