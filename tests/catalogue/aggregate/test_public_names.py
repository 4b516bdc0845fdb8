"""Names of tools in the aggregate of all servers."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from patchbay.catalogue.aggregate.public_names import former_public_name, public_name
from patchbay.descriptors import NAME

ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,49}")
PAIRS = st.tuples(*[st.from_regex(f"(?:[ab_]{{1,4}}|{NAME})", fullmatch=True)] * 2)


def test_a_name_is_the_server_and_the_tool() -> None:
    """X-8, SUB-15."""
    assert public_name("echo", "echo") == "echo__echo"
    assert public_name("snake_case", "_two-Words") == "snake_case___two-Words"


def test_other_names_get_a_digest_and_stay_the_same_on_every_machine() -> None:
    """X-8: a name depends on the server and the tool alone."""
    assert public_name("my.server", "find") == "my_server__find_00d78056"
    long = public_name("server", "tool" * 20)
    assert long == "server__tooltooltooltooltooltooltooltool_980e6ba8"
    assert public_name("server", "tool" * 20 + "s") != long
    assert public_name("server", "t" * 41) == "server__" + "t" * 41


def test_a_name_that_is_cut_keeps_the_beginning_of_the_server_and_of_the_tool() -> None:
    """The digest in the server's part is that of its name: its tools cannot choose it."""
    beginnings = {public_name("a-server-with-a-long-name", f"{tool}{'_more' * 5}")[:20] for tool in ("read", "write")}
    assert len(beginnings) == 1
    assert "__read_more_more" in public_name("a-server-with-a-long-name", f"read{'_more' * 5}")
    assert public_name("a-server-with-a-long-name", "read_more" * 3)[:20] not in (
        public_name("a-server-with-a-long-nose", "read_more" * 3)[:20],
        "a-server-with-a-long",
    )


def test_the_former_name_has_at_most_64_characters_and_differs_only_where_it_is_too_long() -> None:
    assert former_public_name("my.server", "find") == public_name("my.server", "find")
    assert former_public_name("server", "t" * 56) == "server__" + "t" * 56
    assert len(former_public_name("server", "tool" * 20)) == 64


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
