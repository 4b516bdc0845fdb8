"""Bytes at the URI of a CID: wherever a result can have them, in every spelling of the URI, and in broken results."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.upstreams.promised_bytes import check_result

TRUE, FALSE = b"the bytes", cid_of(b"other bytes")


def resource(uri: str, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "text": TRUE.decode(), **more}


def embedded(uri: str, **more: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": resource(uri, **more)}


@pytest.mark.parametrize(
    "make",
    [
        lambda uri: {"content": [{"type": "text", "text": "x"}, embedded(uri)]},
        lambda uri: {"contents": [resource("a://b"), resource(uri)]},
        lambda uri: {"messages": [{"role": "user", "content": embedded(uri)}]},
        lambda uri: {"messages": [{"role": "user", "content": [embedded(uri)]}]},
        lambda uri: {"taskId": "1", "result": {"content": [embedded(uri)]}},
    ],
)
def test_false_bytes_are_refused_and_true_ones_taken_wherever_a_result_has_them(make: Any) -> None:
    check_result(make(f"cid://{cid_of(TRUE)}"), "it")
    with pytest.raises(ToolFailed, match="it gave bytes that are not the content of"):
        check_result(make(f"cid://{FALSE}"), "it")


@pytest.mark.parametrize(
    "uri",
    [
        "cid:{}",
        "CID://{}",
        "cid://{}?key=x",
        "cid://{}#part",
        "cid://%62{}",
        "cid:///{}",
        " cid:{}",
        "c\tid:{}",
        "cid://{}/a",
        "cid://a@{}:1",
    ],
)
def test_every_spelling_of_the_uri_is_a_promise(uri: str) -> None:
    spelled = uri.format(FALSE.removeprefix("b") if "%62" in uri else FALSE)
    with pytest.raises(ToolFailed):
        check_result({"contents": [resource(spelled)]}, "it")


def test_bytes_in_base64_are_checked_and_a_part_of_a_message_is_no_content_identifier() -> None:
    blob = base64.b64encode(TRUE).decode()
    check_result({"contents": [{"uri": f"cid://{cid_of(TRUE)}", "blob": blob}]}, "it")
    check_result({"contents": [resource("cid:part1@example.org")]}, "it")
    for content in ({"blob": blob}, {"blob": "?"}, {}, {"text": "\ud800"}):
        with pytest.raises(ToolFailed):
            check_result({"contents": [{"uri": f"cid://{FALSE}", **content}]}, "it")


def test_text_beside_a_blob_is_refused_because_a_reader_may_take_either() -> None:
    other = base64.b64encode(b"other bytes").decode()
    for content in ({"text": TRUE.decode(), "blob": other}, {"text": 5, "blob": base64.b64encode(TRUE).decode()}):
        with pytest.raises(ToolFailed, match="it gave both text and blob for"):
            check_result({"contents": [{"uri": f"cid:{cid_of(TRUE)}", **content}]}, "it")
    check_result({"contents": [{**resource(f"cid:{cid_of(TRUE)}"), "blob": None}]}, "it")


def test_base64_that_decoders_read_in_different_ways_is_refused() -> None:
    blob = base64.b64encode(TRUE).decode()
    check_result({"contents": [{"uri": f"cid:{cid_of(TRUE)}", "blob": f"{blob[:4]}\n{blob[4:]}"}]}, "it")
    for broken in (f"-{blob}", f"{blob}=AAAA"):
        with pytest.raises(ToolFailed):
            check_result({"contents": [{"uri": f"cid:{cid_of(TRUE)}", "blob": broken}]}, "it")


@pytest.mark.parametrize("part", [None, 5, "text", [None, 5], [{"resource": 5, "type": "resource"}], [{"uri": 5}]])
def test_a_result_that_breaks_the_schema_is_left_to_those_who_read_it(part: Any) -> None:
    check_result({"content": part, "contents": part, "messages": part, "result": part}, "it")
