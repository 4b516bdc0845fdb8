"""Names of tools in the aggregate of all servers."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from patchbay.catalogue.public_names import public_name
from patchbay.descriptors import NAME

ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PAIRS = st.tuples(*[st.from_regex(f"(?:[ab_]{{1,4}}|{NAME})", fullmatch=True)] * 2)


def test_a_name_is_the_server_and_the_tool() -> None:
    """X-8, SUB-15."""
    assert public_name("echo", "echo") == "echo__echo"
    assert public_name("snake_case", "_two-Words") == "snake_case___two-Words"


def test_other_names_get_a_digest_and_stay_the_same_on_every_machine() -> None:
    """X-8: a name depends on the server and the tool alone."""
    assert public_name("my.server", "find") == "my_server__find_00d78056"
    long = public_name("server", "tool" * 20)
    assert long.startswith("server__tooltool") and len(long) == 64
    assert public_name("server", "tool" * 20 + "s") != long


@given(st.lists(PAIRS, unique=True, max_size=30))
def test_every_name_is_allowed_and_no_two_tools_share_one(pairs: list[tuple[str, str]]) -> None:
    """X-8: no server can impersonate another."""
    names = [public_name(*pair) for pair in pairs]
    assert all(map(ALLOWED.fullmatch, names))
    assert len(set(names)) == len(names)


def test_a_tool_cannot_be_named_like_the_digest_form_of_another() -> None:
    """X-8."""
    shortened = public_name("my.server", "find")
    assert public_name("my_server", shortened.removeprefix("my_server__")) != shortened
    assert public_name("a__b", "c") != public_name("a", "b__c")
    assert public_name("a_", "c") != public_name("a", "_c")
