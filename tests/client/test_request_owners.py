"""A question that names no request goes to the only caller it can be for, and to no other one. Issue 32, item 6."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from patchbay.client import request_owners
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.connection.requests import RequestRun
from patchbay.client.errors import McpFailure
from patchbay.client.request_owners import RequestOwners


class Open:
    """Open requests by id, each with its caller."""

    def __init__(self, **callers: object) -> None:
        self.runs: dict[str | int, RequestRun] = {}
        self.owners = RequestOwners(self.runs)
        for id, caller in callers.items():
            run = self.runs[id] = RequestRun(get_shared_loop(), "tools/call", None)
            run.id, run.caller = id, caller

    def end(self, id: str) -> None:
        """End a request, as an answer of the server does."""
        del self.runs[id]
        self.owners.note_end()

    def leave(self, id: str) -> None:
        """Let the caller of a request leave."""
        self.owners.note_left(self.runs[id])
        self.end(id)

    async def find(self, *, meanwhile: Callable[[], None] | None = None) -> Any:
        """Return the id of the request of a question that arrives now; `meanwhile` happens while it waits."""
        found: list[RequestRun | None] = []

        async def search() -> None:
            found.append(await self.owners.find(candidates))

        candidates = self.owners.list_candidates()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            await anyio.wait_all_tasks_blocked()
            if meanwhile is not None:
                meanwhile()
        return found[0].id if found[0] is not None else None


pytestmark = pytest.mark.anyio


async def test_the_newest_request_of_the_only_caller_is_asked() -> None:
    requests = Open(first="a session", second="a session", ping=None)
    assert await requests.find() == "second"
    found = requests.owners.find_now()
    assert found is not None
    assert found.id == "second"


async def test_a_question_waits_until_only_one_caller_has_requests() -> None:
    requests = Open(mine="one", other="another")
    assert requests.owners.find_now() is None
    assert await requests.find(meanwhile=lambda: requests.end("other")) == "mine"


async def test_a_request_may_end_on_any_thread() -> None:
    requests = Open(mine="one", other="another")
    asyncio.get_running_loop().set_debug(True)  # it then refuses calls of other threads that would not wake it
    with ThreadPoolExecutor(1) as threads:
        assert await requests.find(meanwhile=lambda: threads.submit(requests.end, "other").result()) == "mine"


async def test_a_request_that_began_after_the_question_is_never_asked() -> None:
    requests = Open(mine="one")

    def replace() -> None:
        later = requests.runs["later"] = RequestRun(get_shared_loop(), "tools/call", None)
        later.id, later.caller = "later", "another"
        requests.end("other")
        requests.end("mine")

    requests.runs["other"] = RequestRun(get_shared_loop(), "tools/call", None)
    requests.runs["other"].id, requests.runs["other"].caller = "other", "another"
    assert await requests.find(meanwhile=replace) is None


async def test_a_question_for_a_caller_that_has_left_reaches_no_other_caller() -> None:
    requests = Open(left="one", mine="another")
    requests.leave("left")
    assert requests.owners.has_others("another")
    assert await requests.find(meanwhile=lambda: requests.owners.note_answer("left")) == "mine"
    assert not requests.owners.has_others("another")


async def test_a_question_is_refused_while_several_callers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_owners, "WAIT_SECONDS", 0.05)
    requests = Open(mine="one", other="another")
    with pytest.raises(McpFailure, match="several callers"):
        await requests.owners.find(requests.owners.list_candidates())
