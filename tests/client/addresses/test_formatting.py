"""A target is written as an address from which the same target is parsed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.formatting import format_address
from patchbay.client.addresses.targets import AddressError, Http, Stdio

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
PROGRAMS = st.builds(
    Stdio,
    WORDS.filter(lambda word: bool(word) and not word.startswith("-")) | st.just("npx"),
    st.lists(WORDS | st.sampled_from(["-y", "@scope/package", "package@1.2"]), max_size=4).map(tuple),
    cwd=st.none() | WORDS.filter(bool),
)


@settings(deadline=None)
@given(PROGRAMS)
def test_the_address_of_a_program_is_parsed_as_the_same_program(target: Stdio) -> None:
    assert parse_address(format_address(target)).target == target


@pytest.mark.parametrize(
    ("target", "address"),
    [
        (Stdio("npx", ("-y", "@s/p", "--all")), "mcp+npx://@s/p?launch.arg=--all"),
        (Stdio("npx", ("@s/p",)), "mcp+stdio:npx @s/p"),
        (Stdio("npx", ("-y", "--package", "a", "b")), "mcp+stdio:npx -y --package a b"),
        (Stdio("a", ("b?c",), {"X": "1"}, "/d e"), "mcp+stdio:a 'b%3Fc'?launch.cwd=/d%20e"),
        (Http("https://x.example/mcp?a=b", {"A": "b"}), "https://x.example/mcp?a=b"),
        (Http("https://x.example/mcp?list=b"), "mcp+https://x.example/mcp?launch.query=list%3Db"),
        (Http("http://x.example/sse", transport="sse"), "mcp+http://x.example/sse?launch.transport=sse"),
    ],
)
def test_addresses_are_written_as_people_write_them(target: Stdio | Http, address: str) -> None:
    assert format_address(target) == address


@pytest.mark.parametrize("target", [Http("https://x.example/#a"), Http("ftp://x.example/"), Stdio("-a")])
def test_a_target_that_no_address_names_is_refused(target: Stdio | Http) -> None:
    with pytest.raises(AddressError):
        format_address(target)
