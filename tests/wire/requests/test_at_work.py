"""A request is at work while it runs, and not while its body arrives."""

from __future__ import annotations

import time
from typing import Any

from patchbay.wire.requests.at_work import AT_WORK, AtWork
from tests.waiting import until


def test_a_request_is_in_work_from_its_last_byte_to_its_first() -> None:
    """M17: of the request, and of the answer."""
    seen: list[float] = []

    def read(stream: Any, wanted: int) -> bytes:
        seen.append(front.oldest())
        return b"x" * wanted

    def app(environ: Any, start_response: Any) -> list[bytes]:
        until(lambda: front.oldest() > 0, "time goes by")
        assert environ[AT_WORK].apart(read, None, 3) == b"xxx"
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun, "time goes by")
        seen.append(front.oldest())
        return [b"answer"]

    front = AtWork(app, 60)
    assert front({}, None) == [b"answer"]
    assert seen[0] == 0 and 0 < seen[1] < 60
    assert front.oldest() == 0
