"""Strict JSON in, compact JSON out, whatever the text."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.errors import InvalidRequest, ParseError
from patchbay.jsonrpc import (
    MAX_DEPTH,
    MAX_PLAIN_BYTES,
    Failure,
    Notification,
    Rendered,
    Request,
    Result,
    encode,
    message,
    parse,
    parse_file,
    without_mark,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
IDS = TEXT | st.integers(-(2**53), 2**53)


@given(IDS, TEXT.filter(bool), st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_request_comes_back_as_it_was(id: Any, method: str, params: dict[str, Any]) -> None:
    line = encode(Request(id, method, params))
    assert b"\n" not in line and b"\r" not in line
    assert message(parse(line)) == Request(id, method, params)


@given(IDS, st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_result_comes_back_as_it_was_rendered_or_not(id: Any, result: dict[str, Any]) -> None:
    line = encode(Result(id, result))
    assert message(parse(line)) == Result(id, result)
    rendered = json.dumps(result).encode()
    assert parse(encode(Result(id, Rendered(rendered)))) == parse(line)


@given(st.text())
def test_any_text_of_a_tool_is_one_line_that_parses(text: str) -> None:
    """THREATS 1.2, SUB-C17: lone surrogates become the replacement character, never an error."""
    line = encode(Result(1, {"content": [{"type": "text", "text": text}]}))
    assert b"\n" not in line
    said = parse(line)["result"]["content"][0]["text"]
    assert said == text.encode("utf-8", "replace").decode()


def test_a_huge_integer_of_a_tool_is_encoded_in_full() -> None:
    assert b"1" + b"0" * 30 in encode(Result(1, {"n": 10**30}))


def test_a_huge_id_is_encoded_in_full_before_a_result_that_is_encoded_already() -> None:
    assert encode(Result(10**30, Rendered(b"{}"))) == b'{"jsonrpc":"2.0","id":1%b,"result":{}}' % (b"0" * 30)


@given(st.binary())
def test_any_bytes_either_parse_or_are_a_parse_error(data: bytes) -> None:
    try:
        value = parse(data)
    except ParseError:
        return
    assert json.loads(data) == value


@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_depth_is_bounded_exactly(bracket: str) -> None:
    opening = '{"a":' if bracket == "{}" else "["

    def nested(levels: int) -> bytes:
        inner = "1" if bracket == "{}" else ""
        return (opening * levels + inner + bracket[1] * levels).encode()

    parse(nested(MAX_DEPTH))
    with pytest.raises(ParseError, match="deeper"):
        parse(nested(MAX_DEPTH + 1))


def test_wide_and_flat_is_not_deep() -> None:
    assert len(parse(b"[" + b",".join([b"[]"] * 1000) + b"]")) == 1000


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"a":1,"a":2}', "'a'"),
        (b'{"b":{"c":1,"c":1}}', "'c'"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b"[1e400]", "1e400"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
        (b"{}{}", "Extra data"),
    ],
)
def test_a_parse_error_names_the_problem(body: bytes, where: str) -> None:
    with pytest.raises(ParseError, match=where):
        parse(body)


def test_notifications_and_errors_are_distinguished() -> None:
    """SUB-6."""
    assert message({"jsonrpc": "2.0", "method": "n"}) == Notification("n", {})
    assert message({"jsonrpc": "2.0", "method": "n", "params": None}) == Notification("n", {})
    error = {"code": -1, "message": "m"}
    assert message({"jsonrpc": "2.0", "id": 1, "error": error}) == Failure(1, error)
    assert encode(Notification("n", {})) == b'{"jsonrpc":"2.0","method":"n"}'


@pytest.mark.parametrize(
    "value",
    [
        {"jsonrpc": "2.0", "id": 1, "result": 5},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "error": "no"},
        {"jsonrpc": "2.0", "id": 1, "method": ""},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": True, "method": "x"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"},
        {"jsonrpc": 2.0, "id": 1, "method": "x"},
        {"id": 1, "method": "x"},
        {"JSONRPC": "2.0", "id": 1, "method": "x"},
    ],
)
def test_other_shapes_are_invalid_requests(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        message(value)


JSON_TEXTS = st.one_of(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=20,
    ).map(json.dumps),
    st.lists(st.tuples(st.sampled_from("ab:"), st.sampled_from(["1", "1.5", '"x:y"', '{"a":1}', "[2]", "-0"]))).map(
        lambda pairs: "{" + ", ".join(f'"{key}" : {value}' for key, value in pairs) + "}"
    ),
)
"""Values of every kind, and objects in which a key may stand twice."""


@settings(deadline=None)
@given(JSON_TEXTS)
def test_the_quick_way_to_parse_gives_what_the_exact_way_gives(text: str) -> None:
    """M18: white space makes a message too long for the quick way; both refuse and accept the same."""
    with_spaces = text.encode() + b" " * (MAX_PLAIN_BYTES + 1)
    try:
        exact = parse(with_spaces)
    except ParseError:
        with pytest.raises(ParseError):
            parse(text.encode())
        return
    assert repr(parse(text.encode())) == repr(exact)


def test_a_file_may_begin_with_a_byte_order_mark_and_a_message_may_not() -> None:
    """34.22: editors of Windows write it (RFC 8259 section 8.1)."""
    data = codecs.BOM_UTF8 + b'{"kind": "static"}'
    assert parse_file(data) == {"kind": "static"}
    with pytest.raises(ParseError):
        parse(data)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_file_is_read_in_the_encoding_of_its_byte_order_mark(encoding: str) -> None:
    """50.9: PowerShell 5 writes UTF-16 with a mark."""
    data = '\ufeff{"title": "Grüße 🌍"}'.encode(encoding)
    assert parse_file(data) == {"title": "Grüße 🌍"}
    assert without_mark(data) == '{"title": "Grüße 🌍"}'.encode()


@pytest.mark.parametrize(
    "data", [codecs.BOM_UTF16_LE + b"{", codecs.BOM_UTF32_BE + b"\x00\x11\x00\x00", codecs.BOM_UTF16_BE + b"\xd8\x00"]
)
def test_a_file_that_is_not_in_the_encoding_of_its_mark_is_refused(data: bytes) -> None:
    """50.9"""
    with pytest.raises(ParseError, match="begins with the byte order mark of UTF"):
        without_mark(data)
