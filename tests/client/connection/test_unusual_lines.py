"""Answers of programs that are not valid JSON-RPC arrive, or fail at once with the line; no call hangs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.programs.unusual_lines import read_unusual
from patchbay.client.errors import McpFailure
from tests.client.reaching import text
from tests.waiting import BOUND

PROGRAM = str(Path(__file__).with_name("unusual_program.py"))


def call(line: str, era: str) -> str:
    """Call a tool whose answer is this line."""
    target = Stdio(sys.executable, ("-S", PROGRAM, line))
    with Connection.open(target, era="legacy", timeout=BOUND if era == "with a limit" else float("inf")) as connection:
        return text(connection.call_tool("x"))


def result(words: str) -> str:
    return '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "' + words + '"}]}}'


@pytest.mark.parametrize("era", ["with a limit", "without a limit"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (result("lone \\ud800 half"), "lone \ufffd half"),
        (result("byte \xe9"), "byte \ufffd"),
        (result("plain").replace("}]}", '}], "_meta": {"x": NaN}}'), "plain"),
        (result("old").replace('"jsonrpc": "2.0", ', ""), "old"),
        (result("both").replace(', "result"', ', "error": null, "result"'), "both"),
        ("[" + result("array") + "]", "array"),
    ],
    ids=["half a surrogate pair", "not UTF-8", "not a number", "no version", "a null error", "an array"],
)
def test_an_answer_with_a_clear_meaning_arrives(line: str, words: str, era: str) -> None:
    """Issue 50, item 5: it was dropped as noise, and the call hung until its deadline."""
    assert call(line, era) == words


@pytest.mark.parametrize("era", ["with a limit", "without a limit"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"jsonrpc": "2.0", "id": ID, "error": "just text"}', "just text"),
        ('{"jsonrpc": "2.0", "id": ID, "result": "text"}', 'not a JSON-RPC message: .*"result": "text"'),
        ('{"jsonrpc": "2.0", "id": ID, "result": {"content": [}}', 'not a JSON-RPC message: .*"content": '),
    ],
)
def test_an_answer_without_a_clear_meaning_is_an_error_at_once(line: str, words: str, era: str) -> None:
    with pytest.raises(McpFailure, match=words):
        call(line, era)


@pytest.mark.parametrize(
    "line",
    [b"2026", b"[]", b"{}", b"null", b"started", b'{"level": "info", "id": 7, "msg": "x"}', b"\x00", b'{"id": 7,'],
)
def test_output_of_another_kind_is_no_answer(line: bytes) -> None:
    assert read_unusual(line) == []


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"result":{"items":[{"id":3,"x":01}]},"id":9}', 9),
        (b' {"result":{"text":"{\\"id\\": 3, ","x":01},"id":"a"}', "a"),
        (b'{"error":"say "id":3, now","id":9}', 9),
        (b'{"id" : 9 ,"result":{"content":[}, "id": 3}}', 9),
        (b'{"id":9,"error":01} {"id":3,"error":02}', 9),
    ],
)
def test_the_id_of_a_broken_answer_is_that_of_its_outermost_object(line: bytes, id: int | str) -> None:
    """Another id in the line ended the call of somebody else."""
    assert [json.loads(one)["id"] for one in read_unusual(line)] == [id]


@pytest.mark.parametrize(
    "line",
    [
        b'{"result":{"items":[{"id":3,"x":01}]}}',
        b'{"error":01,"id":3,"id":9}',
        b'{"result":{"content":[},"id":3,"x":1}',
        b'{"data":{"result":1},"id":3,"x":01}',
        b'{"result":01,"id":"\xff"}',
        b'{"result":01,"id":{"id":3}}',
        b'["result":01,"id":3]',
        b'{"result":"' + b'\\"' * 100_000,
        b'{"result":' + b"[" * 500_000,
    ],
    ids=lambda line: str(line[:40]),
)
def test_a_broken_line_without_one_clear_id_ends_no_call(line: bytes) -> None:
    assert read_unusual(line) == []
