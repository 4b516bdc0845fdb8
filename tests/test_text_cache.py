"""Results are remembered for short texts, in a bounded number; long texts leave nothing."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.errors import Refused
from patchbay.hosts.names import authority, is_loopback
from patchbay.settings import Settings
from patchbay.text_cache import MAX_CACHED_CHARACTERS, cached_by_text
from patchbay.wire.endpoints.mcp import find_endpoint
from patchbay.wire.replies.accept import accepted_forms, preferred_form, wants_html
from patchbay.wire.requests.authentication import credentials_of
from patchbay.wire.requests.bodies import media_type
from patchbay.wire.requests.request import Body, Request
from patchbay.wire.requests.security import Misdirected, check_host_and_origin
from patchbay.wire.requests.wsgi import make_environ, read_environ

SETTINGS = Settings()
LONG = 30 * 1024


def check(host: str, origin: str | None) -> None:
    try:
        check_host_and_origin(host, origin, SETTINGS)
    except (Misdirected, Refused):
        return


SLOW = {"accepted_forms": 64, "preferred_form": 64, "wants_html": 64}
"""Functions that need long for a long text, with the number of texts in place of 1,024: already these are 2 MB."""

FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "accepted_forms": accepted_forms,
    "preferred_form": preferred_form,
    "wants_html": wants_html,
    "media_type": media_type,
    "the name of a header": lambda text: make_environ(Request("GET", "/", "", {text: ""}, Body(), {})),
    "the name of a header in an environ": lambda text: read_environ({f"HTTP_{text}": ""}),
    "the endpoint of a path": lambda text: find_endpoint(f"/mcp/{text}"),
    "the URL of a request": lambda text: credentials_of(
        Request("POST", f"/mcp/{text}", "", {"host": "localhost"}, Body(), {})
    ),
    "authority": authority,
    "is_loopback": is_loopback,
    "the check of a host": lambda text: check(text, None),
    "the check of an origin": lambda text: check("localhost", f"http://{text}"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_thousand_long_texts_of_a_caller_leave_less_than_a_megabyte(name: str) -> None:
    function = FUNCTIONS[name]
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(SLOW.get(name, 1024)):
            function(f"{number:x}".ljust(LONG, "x"))
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert left < 1_000_000


def test_short_texts_are_computed_once_and_in_a_bounded_number() -> None:
    asked: list[str] = []

    @cached_by_text(3)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "x" * MAX_CACHED_CHARACTERS, "x" * (MAX_CACHED_CHARACTERS + 1)
    assert [length(short), length(short), length(long), length(long)] == [200, 200, 201, 201]
    assert asked == [short, long, long]
    for number in range(8):
        assert length(str(number)) == 1
    assert length(short) == 200 and asked.count(short) == 2, "it was forgotten"


def test_what_a_function_raises_is_raised_each_time() -> None:
    @cached_by_text(3)
    def fail(text: str) -> int:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            fail("x")
