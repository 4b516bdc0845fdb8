"""Helpers of the tests of workers: definitions in a pool of their own, and views of processes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from patchbay.activation import Handler
from patchbay.cid import cid_of
from patchbay.events import Data, Done, Event, Failed, Text
from patchbay.kinds.python.workers.handler import hosted_handler
from patchbay.kinds.python.workers.worker_order import WorkerOrder
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.processes.limits import Limits
from tests.kinds.calls import call_of, events


def hosted(hosts: WorkerPool, source: str, name: str = "tool", **limits: Any) -> Handler:
    """Return the handler of a Python definition in a worker."""
    data = dedent(source).encode()
    return hosted_handler(hosts, WorkerOrder(name, cid_of(data), data, Limits(**limits)))


def value(handler: Handler, function: str = "main", /, **arguments: Any) -> Any:
    """Return a function's result, as text or JSON."""
    found = events(handler, call_of(arguments, target={"function": function}))
    assert isinstance(found[-1], Done), found
    last = found[-2]
    assert isinstance(last, (Text, Data)), found
    return last.text if isinstance(last, Text) else last.value


def failure(handler: Handler, given: dict[str, Any] | None = None, /, **more: Any) -> str:
    """Return the message of a failing `main`; `more` are further fields of the call."""
    found: list[Event] = events(handler, call_of(given, **more))
    assert isinstance(found[-1], Failed), found
    return found[-1].message


def family(*ancestors: int) -> set[int]:
    """Return every living descendant of some processes, by their parents' process ids."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    found = set(ancestors)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - set(ancestors)


def descriptors() -> int:
    """Return the number of this process's open descriptors."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
