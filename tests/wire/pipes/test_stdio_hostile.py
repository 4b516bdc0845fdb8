"""What a stranger may write to a pipe: every line has its answer, and the next line is understood again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.jsonrpc import Result, encode
from patchbay.wire.pipes.lines import Writer, as_line, lines
from tests.hubs import Hub
from tests.wire.talks import Talk

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
def talk(zoo: Hub) -> Iterator[Talk]:
    """A pipe to the zoo, on which nothing was said yet."""
    talk = Talk(zoo)
    yield talk
    talk.close()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b'{"jsonrpc":"2.0","id":2,"method":"ping"', -32700),
        (b"\xff\xfe\x00", -32700),
        (b'{"jsonrpc":"2.0","id":2,"method":"\xc3\x28"}', -32700),
        (b'{"jsonrpc":"2.0",\x00"id":2,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":2,"id":3,"method":"ping"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[" * 100_000 + b"]" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":2,"method":"ping","params":' + b"[" * 200 + b"]" * 200 + b"}", -32700),
        (b"7", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":2,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":2,"method":""}', -32600),
        (b"[[[[]]]]", -32600),
        (b'"' + b"x" * (4 * 1024 * 1024) + b'"', -32600),
        (b"x" * (10 * 1024 * 1024), -32600),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else "",
)
def test_a_bad_line_is_an_error_and_the_next_one_is_understood(talk: Talk, line: bytes, code: int) -> None:
    talk.raw(line + b"\n" + PING + b"\n")
    error = talk.until(lambda one: "error" in one, "no error")["error"]
    assert (error["code"], bool(error["message"])) == (code, True)
    assert talk.answer(1)["result"] == {}
    assert len(talk.said) == 2


def test_an_endless_line_is_an_error_before_it_ends(talk: Talk) -> None:
    for _ in range(80):
        talk.raw(b"x" * 65536)
    assert "4194304 bytes" in talk.until(lambda one: "error" in one, "no error")["error"]["message"]
    talk.raw(b"x" * 65536 + b"\n" + PING + b"\n")
    assert talk.answer(1)["result"] == {}
    assert len(talk.said) == 2


def test_blank_lines_and_other_line_ends_are_not_messages(talk: Talk) -> None:
    talk.raw(b"\n\r\n  \n" + PING + b"\r\n\n")
    assert talk.answer(1)["result"] == {}
    assert len(talk.said) == 1


def test_a_line_in_pieces_is_one_message(talk: Talk) -> None:
    for byte in PING + b"\n":
        talk.raw(bytes([byte]))
    assert talk.answer(1)["result"] == {}


def test_the_last_line_needs_no_end(talk: Talk) -> None:
    talk.raw(PING)
    assert talk.end()
    assert [one["id"] for one in talk.said] == [1]


def test_half_a_line_at_the_end_is_an_error(talk: Talk) -> None:
    talk.raw(PING[:20])
    assert talk.end()
    assert [one["error"]["code"] for one in talk.said] == [-32700]


@pytest.mark.parametrize(
    "text", ["a\u2028b", "a\u2029b", "a\x85b", "a\r\nb\n", "\x0b\x0c\x1c\x1d\x1e", "\0", "\\u2028"]
)
def test_the_text_of_a_tool_never_ends_its_line(talk: Talk, text: str) -> None:
    """SUB-37."""
    talk.open()
    talk.ask("tools/call", {"name": "same", "arguments": {"value": {text: text}}}, 5)
    assert talk.answer(5)["result"]["structuredContent"] == {"value": {text: text}}
    assert [len(line.decode().splitlines()) for line in talk.lines] == [1] * len(talk.lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_value_is_exactly_one_line_that_reads_back_equal(value: Any) -> None:
    """SUB-37."""
    line = as_line(encode(Result(1, {"value": value})))
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert orjson.loads(line)["result"] == orjson.loads(orjson.dumps({"value": value}))


@given(st.text(alphabet=st.characters(codec=None)))
def test_text_that_no_encoding_can_say_is_one_line_too(text: str) -> None:
    line = as_line(encode(Result(1, {"value": text})))
    assert len(line.decode().splitlines()) == 1
    assert orjson.loads(line)["result"]["value"] == text.encode("utf-8", "replace").decode()


@given(st.lists(st.binary(min_size=1).map(lambda raw: raw.replace(b"\n", b"")), max_size=8), st.integers(1, 7))
def test_lines_are_the_same_however_they_are_cut(parts: list[bytes], size: int) -> None:
    data = b"\n".join(parts)
    pieces = iter([data[at : at + size] for at in range(0, len(data), size)])
    expected = [part.removesuffix(b"\r") for part in parts if part.removesuffix(b"\r").strip()]
    assert list(lines(lambda most: next(pieces, b""), 1000)) == expected


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_is_bounded_wherever_it_is_cut(size: int) -> None:
    data = b"a" * 10 + b"\n" + b"b" * 11 + b"\r\n" + b"c" * 11 + b"\n" + b"d" * 10
    pieces = iter([data[at : at + size] for at in range(0, len(data), size)])
    found = [one if isinstance(one, bytes) else "too large" for one in lines(lambda most: next(pieces, b""), 10)]
    assert found == [b"a" * 10, "too large", "too large", b"d" * 10]


def test_the_end_of_a_reader_is_reported_once_and_writing_stops() -> None:
    tries: list[bytes] = []
    gone: list[bool] = []

    def write(data: memoryview) -> int:
        tries.append(bytes(data))
        raise BrokenPipeError

    writer = Writer(write, lambda: gone.append(True))
    writer.send(b"1")
    writer.send(b"2")
    assert (tries, gone) == ([b"1\n"], [True])


def test_the_name_of_a_tool_in_a_line_of_a_log_is_harmless(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"one.py": "def first(context) -> str:\n    context.log('a\\u2028b')\n    return 'a'\n"})
    talk = Talk(hub, "one")
    try:
        talk.open()
        talk.legacy("tools/call", {"name": "first"}, 2)
        assert all(len(line.decode().splitlines()) == 1 for line in talk.lines)
    finally:
        talk.close()
        hub.close()
