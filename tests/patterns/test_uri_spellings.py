"""A denial holds for every spelling of a URI, and a grant gives a URI only when it covers every spelling of it.

Sources: RFC 3986, sections 2.1, 5.2.4 and 6.2.2; RFC 3987, section 3.1.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.patterns.entries import covers
from patchbay.patterns.uri_spellings import (
    MAX_DECODINGS,
    MAX_SPELLED_CHARACTERS,
    covers_any_spelling,
    covers_every_spelling,
    is_uri,
)

SECRET = "docs.docs://library/secret/*"
PUBLIC = "docs.docs://library/public/*"


@pytest.mark.parametrize(
    "uri",
    [
        "docs://library/secret/x",
        # RFC 3986, section 6.2.2: encoded letters, upper and lower case, dot segments
        *("docs://library/%73ecret/x", "docs://%6Cibrary/secret/x", "DOCS://library/secret/x"),
        *("docs://LIBRARY/secret/x", "docs://library/./secret/x", "docs://library/public/../secret/x"),
        *("docs://library/public/%2e%2e/secret/x", "docs://library/public/%2E./secret/x"),
        # the authority is a part of the path for a template such as docs://{+path}
        *("docs://other/../library/secret/x", "docs://library/../library/secret/x", "docs://library/../secret/x"),
        # encoded slashes, and what was encoded twice and three times
        *("docs://library%2Fsecret/x", "docs://library/secret%2fx", "docs://library/public%2F..%2Fsecret/x"),
        *("docs://library/%2573ecret/x", "docs://library/%252573ecret/x"),
        # more often than the hub decodes
        *("docs://library/%25252573ecret/x", "docs://library/%2525252573ecret/x"),
        # backslashes, empty segments, the slash at the end
        *("docs://library\\secret\\x", "docs://library/public/..\\secret/x", "docs://library%5Csecret%5Cx"),
        *("docs:/library/secret/x", "docs:///library/secret/x", "docs://library//secret/x", "docs://library/secret//x"),
        *("docs://library/public//../secret/x", "docs://library/secret", "docs://library/secret/"),
        # a query and a fragment
        *("docs://library/secret?all=1", "docs://library/secret#top", "docs://library/%73ecret/x?y#z"),
        # a file system without upper and lower case, and letters with two forms
        *("docs://library/SECRET/x", "docs://library/%53eCret/x", "docs://library/\u017fecret/x"),
    ],
)
def test_a_denial_holds_for_each_spelling(uri: str) -> None:
    assert covers_any_spelling(SECRET, "docs", uri)
    assert not covers_every_spelling(PUBLIC, "docs", uri)


@pytest.mark.parametrize(
    "uri",
    [
        *("docs://library/public/x", "docs://library/secretary/x", "docs://library/public/secret", "docs://library"),
        *(
            "docs://secret/x",
            "docs://library/public/a%20b%2Fc",
            "docs://library/public/\u00e9",
            "note://library/secret",
        ),
        *("docs://library/secret/../public/x", "urn:library:secret:x"),
    ],
)
def test_a_denial_does_not_hold_for_other_uris(uri: str) -> None:
    is_written_so = covers(SECRET, "docs", uri)
    assert covers_any_spelling(SECRET, "docs", uri) is is_written_so


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        (PUBLIC, "docs://library/public/x"),
        (PUBLIC, "docs://library/%70ublic/x"),
        (PUBLIC, "DOCS://library/public/x"),
        (PUBLIC, "docs://library/public/a/../x"),
        (PUBLIC, "docs://library/public/a%2Fb%20c?d=e/../f"),
        ("docs.docs://caf\u00e9/*", "docs://caf%C3%A9/x"),
        ("docs.docs://caf%c3%a9/*", "docs://cafe\u0301/x"),
        ("docs.docs://a%20b", "docs://a%20b"),
        ("docs.docs://{+path}", "docs://{+path}"),
        ("docs.*://library/*", "docs://library/x"),
        ("docs.urn:isbn:*", "URN:isbn:1"),
        ("docs", "docs://library/%2525252573ecret/x"),
        ("docs.*", "docs://library/%2525252573ecret/x"),
    ],
)
def test_a_grant_gives_the_spellings_that_mean_the_same(pattern: str, uri: str) -> None:
    assert covers_every_spelling(pattern, "docs", uri)


@pytest.mark.parametrize(
    "uri",
    [
        *("docs://library/public/../secret/x", "docs://library/public/%2e%2e/secret/x"),
        *("docs://library/public/%252e%252e/secret/x", "docs://library/public/..%2Fsecret/x"),
        *("docs://library/public/..\\secret\\x", "docs://library/public/..%5Csecret", "docs://library/PUBLIC/x"),
        *("docs://library/secret/../public/x", "docs://library/public/%2525252e%2525252e/x"),
        "docs://library/public/x?y=1/../../../secret",
        # after one decoding this is in another folder, after two it is in the given one again
        "docs://library/public/..%2Fsecret%2F%252e%252e%2Fpublic%2Fx",
    ],
)
def test_a_grant_does_not_give_what_leads_elsewhere(uri: str) -> None:
    assert not covers_every_spelling(PUBLIC, "docs", uri)


FILE, PAGE = "files.file:///secret/*", "files.https://h.example/secret"


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        # URL of JavaScript, AnyUrl of pydantic and urlsplit leave out tabs and line ends; two of them spaces around
        *((FILE, "file:///sec\tret/x"), (FILE, "file:///sec\r\nret/x"), (FILE, "fi\nle:///secret/x")),
        *(
            (FILE, " file:///secret/x"),
            (FILE, "file:///secret/x "),
            (FILE, "\tfile:///secret/x"),
            (FILE, "\x00file:///"),
        ),
        *((FILE, "file:///sec%09ret/x"), (FILE, "file:///sec%250aret/x"), (FILE, "file:///secret\x7f/x")),
        *(
            (FILE, "file://localhost/secret/x"),
            (FILE, "file://LOCALHOST/secret/x"),
            (FILE, "FILE://localhost/%73ecret/x"),
        ),
        *((PAGE, "https://h.example:443/secret"), (PAGE, "https://ann@h.example/secret")),
        *((PAGE, "https://ann:word@h.example:443/secret"), (PAGE, "https://h%2Eexample:443/public/../secret")),
        ("files.https://h.example:443/secret", "https://h.example/secret"),
    ],
)
def test_a_denial_holds_for_what_readers_of_urls_take_for_the_same(pattern: str, uri: str) -> None:
    """WHATWG URL Standard, section 4.4; RFC 8089."""
    assert covers_any_spelling(pattern, "files", uri)
    given = pattern.replace("secret", "public")
    assert not covers_every_spelling(given, "files", uri.replace("secret", "public/.\t./secret"))


def test_a_grant_gives_a_uri_with_a_port_and_a_user_as_it_is_written() -> None:
    for uri in ("https://h.example:8443/x", "file://host/x", "https://h.example/x@y:80"):
        assert covers_every_spelling(f"files.{uri}", "files", uri)
    assert not covers_every_spelling("files.https://h.example/*", "files", "https://ann@h.example/x")
    assert not covers_any_spelling(PAGE, "files", "https://h.example:8443/secret")


@pytest.mark.parametrize(
    "uri",
    ["api://items?id=5", "api://items?id=%35", "api://items?a=1&id=5", "api://items?id=4&id=5", "api://items/?&id=5"],
)
def test_a_denied_parameter_of_a_query_is_denied_at_each_place(uri: str) -> None:
    assert covers_any_spelling("api.api://items?id=5", "api", uri)
    assert not covers_any_spelling("api.api://items?id=6", "api", uri)


def test_a_long_uri_with_other_spellings_is_denied_and_not_given() -> None:
    """Comparing takes time for each letter and each pattern."""
    long = "docs://library/public/" + "a" * MAX_SPELLED_CHARACTERS
    for uri, is_plain in ((long, True), (f"{long}%20", False)):
        assert covers_every_spelling(PUBLIC, "docs", uri) is is_plain
        assert covers_any_spelling(SECRET, "docs", uri) is not is_plain


def test_names_of_tools_are_compared_as_they_are_written() -> None:
    assert not is_uri("delete_note") and not is_uri("notes/%73ecret")
    assert not covers_any_spelling("notes.delete_note", "notes", "Delete_Note")
    assert not covers_any_spelling("notes.delete_note", "notes", "delete%5Fnote")
    assert covers_every_spelling("notes.delete_note", "notes", "delete_note")


PARTS = st.sampled_from(["secret", "public", "..", ".", "", "a b", "SECRET", "%", "\u00e9", "x?y=1", "c.d"])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A URI in which any letters are encoded, up to three times, and slashes may be backslashes."""
    text = draw(PATHS)
    for _ in range(draw(st.integers(0, MAX_DECODINGS))):
        chosen = draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
        text = "".join(
            "".join(f"%{octet:02x}" for octet in letter.encode()) if is_chosen else letter.replace("%", "%25")
            for letter, is_chosen in zip(text, chosen, strict=True)
        )
    return "docs://library/" + (text.replace("/", "\\") if draw(st.booleans()) else text)


def paths(path: str) -> list[str]:
    """What servers read for a path: with and without its query, as a path of a file system."""
    bare = path.replace("\\", "/")
    return [posixpath.normpath("/" + each) for each in (bare, bare.partition("?")[0])]


def decoded_paths(uri: str) -> list[str]:
    """What servers read for a URI after each number of decodings."""
    found, path = [], uri.removeprefix("docs://")
    for _ in range(MAX_DECODINGS):
        path = unquote(path)
        found += paths(path)
    return found


@given(spellings())
def test_whatever_a_server_reads_for_a_spelling_is_denied_and_given_as_that(uri: str) -> None:
    """An independent reader decodes and resolves: one denied reading denies, and only given readings give."""
    path, decoded = uri.removeprefix("docs://"), decoded_paths(uri)
    if any(f"{one}/".casefold().startswith("/library/secret/") for one in [*paths(path), *decoded]):
        assert covers_any_spelling(SECRET, "docs", uri)
    # RFC 3986: what differs in encoded letters, digits, -, ., _ and ~ is the same URI for every reader.
    same = re.sub(r"%(2[de]|3\d|4[1-9a-f]|5[\daf]|6[1-9a-f]|7[\dae])", lambda found: unquote(found[0]), path)
    if not all(f"{one}/".startswith("/library/public/") for one in [*paths(same), *decoded]):
        assert not covers_every_spelling(PUBLIC, "docs", uri)


@given(spellings(), st.sampled_from([SECRET, PUBLIC, "docs.*", "docs.docs://library/?*", "d*.docs://*/[!a]*"]))
def test_a_grant_covers_less_than_a_denial_with_the_same_pattern(uri: str, pattern: str) -> None:
    if covers(pattern, "docs", uri) or covers_every_spelling(pattern, "docs", uri):
        assert covers_any_spelling(pattern, "docs", uri)


@given(PATHS)
def test_a_uri_is_given_by_a_pattern_that_is_written_the_same(path: str) -> None:
    uri = "docs://library/" + quote(path)
    assert covers_every_spelling(f"docs.{uri}", "docs", uri)


@given(st.text(), st.text())
def test_any_text_is_compared_without_an_error(pattern: str, rest: str) -> None:
    for covering in (covers_any_spelling, covers_every_spelling):
        assert covering(f"docs.{pattern}", "docs", f"docs:{rest}") in (True, False)
