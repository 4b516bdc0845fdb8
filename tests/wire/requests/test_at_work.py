"""A request is at work while it runs, and not while its body arrives."""

from __future__ import annotations

import time
from typing import Any

from patchbay.wire.requests.at_work import AtWork
from tests.waiting import until


def test_a_request_is_in_work_from_its_last_byte_to_its_first() -> None:
    """M17: of the request, and of the answer."""
    seen: list[float] = []

    def read(stream: Any, wanted: int) -> bytes:
        seen.append(at_work.oldest())
        return b"x" * wanted

    at_work = AtWork(60)
    thread = at_work.begin()
    until(lambda: at_work.oldest() > 0, "time goes by")
    assert at_work.apart(read, None, 3) == b"xxx"
    begun = time.monotonic()
    until(lambda: time.monotonic() > begun, "time goes by")
    seen.append(at_work.oldest())
    at_work.end(thread)
    assert seen[0] == 0 and 0 < seen[1] < 60
    assert at_work.oldest() == 0
