"""What a function returned, as events."""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections import OrderedDict, deque, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import BaseModel, Field

from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.events import Content, Data, Event, Text
from patchbay.outputs.conversion import Redirected, clean, events_of

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


class Colour(Enum):
    RED = "red"


class Gauge(Enum):
    STUCK = float("nan")
    TWO = (1.5, float("inf"))


class Size(StrEnum):
    BIG = "big"


@dataclasses.dataclass
class Point:
    x: int
    when: date


class Weight(BaseModel):
    grams: float


@dataclasses.dataclass
class Box:
    weight: float


class Person(BaseModel):
    full_name: str = Field(alias="fullName")
    photo: bytes = b""


Pair = namedtuple("Pair", "a b")


def one(value: Any) -> Event:
    (event,) = events_of(value)
    return event


def test_text_stays_text_and_none_is_nothing() -> None:
    """T5.7: text content."""
    assert one("héllo") == Text("héllo")
    assert one("") == Text("")
    assert list(events_of(None)) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (3, 3),
        (2.5, 2.5),
        ({"a": None}, {"a": None}),
        ([], []),
        ({}, {}),
        (["a", "b"], ["a", "b"]),
        ((1, 2), [1, 2]),
        ({7}, [7]),
        (deque([7, None]), [7, None]),
        ({"a": None, 2: range(3)}, {"a": None, "2": [0, 1, 2]}),
        ({None: None, True: 1, 2: 2}, {"null": None, "true": 1, "2": 2}),
        (frozenset({7}), [7]),
        (Pair(1, 2), [1, 2]),
        (OrderedDict(b=1), {"b": 1}),
        ({1: "a", Colour.RED: "b"}, {"1": "a", "red": "b"}),
        (Point(1, date(2026, 7, 28)), {"x": 1, "when": "2026-07-28"}),
        (Colour.RED, "red"),
        (Size.BIG, "big"),
        (datetime(2026, 7, 28, 12, tzinfo=UTC), "2026-07-28T12:00:00+00:00"),
        (timedelta(seconds=90), "PT1M30S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
        (Person(fullName="Ada", photo=b"\xff\xfe"), {"fullName": "Ada", "photo": "//4="}),
        ([{"raw": b"\xff\xfe"}, {"n": Decimal(1)}], [{"raw": "//4="}, {"n": "1"}]),
    ],
)
def test_values_become_their_json_form(value: Any, expected: Any) -> None:
    assert one(value) == Data(expected)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_every_json_value_inside_an_object_comes_out_unchanged(value: Any) -> None:
    assert one({"value": value}) == Data({"value": value})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "NaN"),
        ({"a": [float("inf")]}, "infinite"),
        (Weight(grams=float("nan")), "NaN"),
        (Box(float("nan")), "NaN"),
        ({"a": (1.5, float("nan"))}, "NaN"),
        ({"d": deque([float("nan")])}, "NaN"),
        (deque([[{"d": float("nan")}]]), "NaN"),
        ({float("nan")}, "NaN"),
        ((number for number in [float("nan")]), "NaN"),
        (Gauge.STUCK, "NaN"),
        ({"a": [Gauge.TWO]}, "infinite"),
        ({"n": 2**70, "x": float("nan")}, "JSON form"),
        ({1: "a", "1": "b"}, "its keys 1 and '1' are both '1' in JSON"),
        (deque([{True: "a", "true": "b"}]), "are both 'true' in JSON"),
        ([2**5000], "an integer of more than 4096 bits"),
        (object(), "object"),
        ({"a": object()}, "type object"),
        ({(1, 2): 3}, "JSON form"),
        (["\ud800", 1], "surrogates"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_a_reason(value: Any, words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        list(events_of(value))


def test_a_value_that_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ToolFailed, match="JSON form"):
        list(events_of(ring))


def test_null_beside_numbers_does_not_become_nan() -> None:
    assert one([None, 1.5, "null"]) == Data([None, 1.5, "null"])


@dataclasses.dataclass
class Large:
    number: int
    when: date


class Huge(Enum):
    ONE = 2**70


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**70, 2**70),
        (-(2**63) - 1, -(2**63) - 1),
        ({"n": 2**70, "t": (2**64, 1.5, None, True)}, {"n": 2**70, "t": [2**64, 1.5, None, True]}),
        ({2**70: 1, 1: 2, None: 2**70}, {str(2**70): 1, "1": 2, "null": 2**70}),
        (Large(2**70, date(2026, 1, 2)), {"number": 2**70, "when": "2026-01-02"}),
        ({2**70}, [2**70]),
        (Huge.ONE, 2**70),
        ([Huge.ONE, b"a"], [2**70, "YQ=="]),
        (deque([{"a": deque([2**70])}]), [{"a": [2**70]}]),
        (10**1000, 10**1000),
    ],
)
def test_integers_beyond_64_bits_stay_exact(value: Any, expected: Any) -> None:
    """Issue 50 item 11: JSON has no limit (RFC 8259, section 6)."""
    assert one(value) == Data(expected)


def test_a_content_block_may_have_an_integer_beyond_64_bits() -> None:
    block = {"type": "text", "text": "x", "_meta": {"n": 2**70}}
    assert one(block) == Content(block)


@pytest.mark.parametrize("value", [{"n": 2**70, 1: "a", "1": "b"}, {"n": 2**70, "x": float("inf")}])
def test_other_faults_beside_a_large_integer_are_still_found(value: Any) -> None:
    with pytest.raises(ToolFailed, match="JSON"):
        one(value)


@given(st.text(st.characters()))
def test_any_text_can_be_sent_as_utf8(text: str) -> None:
    orjson.dumps(clean(text))
    assert clean(clean(text)) == clean(text)


def test_surrogate_pairs_are_joined_and_lone_ones_replaced() -> None:
    assert clean("\ud83d\ude00") == "😀"
    assert clean("a\ud800b") == "a\ufffdb"


@pytest.mark.parametrize(
    ("data", "kind", "media_type"),
    [
        (PNG, "image", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image", "image/jpeg"),
        (b"GIF89a...", "image", "image/gif"),
        (b"RIFF\x01\x02\x03\nWEBPVP8 ", "image", "image/webp"),
        (b"RIFF\x01\x02\x03\x04WAVEfmt ", "audio", "audio/wav"),
        (b"ID3\x04", "audio", "audio/mpeg"),
        (b"\xff\xfb\x90", "audio", "audio/mpeg"),
        (b"OggS\0", "audio", "audio/ogg"),
    ],
)
def test_images_and_sounds_are_known_by_their_first_bytes(data: bytes, kind: str, media_type: str) -> None:
    """T5.8: bytes as base64."""
    assert one(data) == Content({"type": kind, "data": b64encode(data).decode(), "mimeType": media_type})


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_other_bytes_are_an_embedded_resource_under_their_cid(make: Any) -> None:
    """T5.8: bytes that are not image or sound are an embedded blob."""
    data = b"\x00\x01whatever"
    event = one(make(data))
    assert isinstance(event, Content)
    resource = event.block["resource"]
    assert resource["uri"] == f"cid://{cid_of(data)}"
    assert resource["mimeType"] == "application/octet-stream"
    assert b64decode(resource["blob"]) == data


BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "hi", "annotations": {"audience": ["user"]}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "test://a", "text": "x"}},
    {"type": "resource", "resource": {"uri": "test://a", "blob": "AAAA", "mimeType": "a/b"}},
    {"type": "resource_link", "uri": "https://example.org/a", "name": "a"},
]


@pytest.mark.parametrize("shown", BLOCKS)
def test_a_content_block_passes_through(shown: dict[str, Any]) -> None:
    assert one(shown) == Content(shown)


def test_a_list_of_blocks_strings_and_bytes_is_each_its_own_block() -> None:
    text = {"type": "text", "text": "caption"}
    image = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}
    assert list(events_of(BLOCKS)) == [Content(shown) for shown in BLOCKS]
    assert list(events_of(["caption", PNG, BLOCKS[5]])) == [Content(text), Content(image), Content(BLOCKS[5])]
    assert list(events_of(("caption", PNG))) == [Content(text), Content(image)]


def test_bytes_in_a_block_are_encoded() -> None:
    assert one({"type": "image", "data": PNG, "mimeType": "image/png"}) == one(PNG)


def test_content_models_of_the_official_types_pass_through() -> None:
    embedded = EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="test://a", text="x", mime_type="text/plain")
    )
    assert one(TextContent(type="text", text="hi")) == Content({"type": "text", "text": "hi"})
    assert list(events_of([ImageContent(type="image", data="AAAA", mime_type="image/png"), embedded])) == [
        Content({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
        Content({"type": "resource", "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "x"}}),
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text"},
        {"type": "image", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "a"}},
        {"type": "circle", "text": "r"},
        {"type": ["text"], "text": "r"},
        [{"type": "text", "text": "a"}, 1],
        {"output": "no content type"},
        {"redirect": "somewhere"},
        {"output": 1, "content_type": "text/html", "more": 1},
        ["text", "text/plain"],
    ],
)
def test_a_value_that_resembles_a_block_is_data(value: Any) -> None:
    assert one(value) == Data(value)


def blob(data: bytes, media_type: str) -> Content:
    encoded = b64encode(data).decode()
    resource = {"uri": f"cid://{cid_of(data)}", "mimeType": media_type, "blob": encoded}
    return Content({"type": "resource", "resource": resource})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"output": "<b>", "content_type": "text/html"}, Text("<b>")),
        ({"output": "<b>", "content_type": "text/html; charset=utf-8", "status": 200}, Text("<b>")),
        ({"output": b"<b>", "content_type": "text/html"}, Text("<b>")),
        (("<b>", "text/html"), Text("<b>")),
        ({"output": b"\xff", "content_type": "text/plain"}, blob(b"\xff", "text/plain")),
        ({"output": "{}", "content_type": "application/json"}, Text("{}")),
        ({"output": "<svg/>", "content_type": "image/svg+xml"}, Text("<svg/>")),
        ({"output": {"a": 1}, "content_type": "application/json"}, Data({"a": 1}, "application/json")),
        ({"output": [72, 105], "content_type": "application/pdf"}, blob(b"Hi", "application/pdf")),
        ({"output": [72, 105], "content_type": "text/plain"}, Data([72, 105], "text/plain")),
        ((b"%PDF", "application/pdf"), blob(b"%PDF", "application/pdf")),
        ((b"abc", "image/bmp"), Content({"type": "image", "data": "YWJj", "mimeType": "image/bmp"})),
        (("a,b", "application/x-thing"), blob(b"a,b", "application/x-thing")),
    ],
)
def test_viewers_output_goes_by_its_media_type(value: Any, expected: Event) -> None:
    """V-F8: Viewer's return values."""
    assert one(value) == expected


def test_viewers_output_of_none_is_nothing() -> None:
    assert list(events_of({"output": None, "content_type": "text/html"})) == []


@pytest.mark.parametrize("output", ["gone", b"gone"])
def test_a_status_of_400_or_more_fails_with_the_text(output: Any) -> None:
    with pytest.raises(ToolFailed, match="gone") as failure:
        list(events_of({"output": output, "content_type": "text/plain", "status": 404}))
    assert failure.value.data == {"status": 404}


def test_a_failing_status_may_come_with_integers_beyond_64_bits() -> None:
    with pytest.raises(ToolFailed, match="1180591620717411303424"):
        list(events_of({"output": {"n": 2**70}, "content_type": "application/json", "status": 500}))


def test_a_failing_status_without_words_names_itself() -> None:
    with pytest.raises(ToolFailed, match="status 500"):
        list(events_of({"output": "", "content_type": "text/plain", "status": 500}))


@pytest.mark.parametrize("location", ["/cid/bafy", "/echo", "https://example.org/", "cid://bafy"])
def test_a_redirect_is_signalled_with_its_location(location: str) -> None:
    """T13.8: redirects."""
    with pytest.raises(Redirected) as signal:
        list(events_of({"redirect": location}))
    assert signal.value.location == location


def test_a_typed_event_of_an_author_keeps_its_kind_and_words() -> None:
    """SUB-C5."""
    assert one(Data({"at": date(2026, 7, 28)}, "note.event", "caf\ud83d\udc34")) == Data(
        {"at": "2026-07-28"}, "note.event", "caf🐴"
    )
    with pytest.raises(ToolFailed, match="no JSON form"):
        one(Data(object(), "note.event"))
