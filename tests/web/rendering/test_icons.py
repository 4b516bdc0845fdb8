"""The picture that a page shows of an `icons` list: only one inside the list, small, and of a known type."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from patchbay.web.rendering.icons import MAX_ICON_BYTES, SVG, TINTS, choose_tint, find_icon, first_letter
from tests.wire.hostile import HOSTILE

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
DRAWING = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


def test_the_first_picture_inside_the_list_is_found() -> None:
    """MCP 2025-11-25, Icons: PNG, JPEG and SVG; an address of another host is never called."""
    far = {"src": "https://far.example/i.png", "mimeType": "image/png"}
    dark = {"src": data_url(PNG + b"dark"), "theme": "dark"}
    found = find_icon([far, dark, {"src": data_url(PNG)}])
    assert found is not None and (found.media_type, found.data) == ("image/png", PNG)
    assert find_icon([far]) is None
    escaped = find_icon([{"src": "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E"}])
    assert escaped is not None and escaped.media_type == SVG


def test_the_bytes_decide_the_type() -> None:
    found = find_icon([{"src": data_url(DRAWING, "image/png"), "mimeType": "text/html"}])
    assert found is not None and found.media_type == SVG


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", SVG),
    ],
)
def test_pictures_of_five_types_are_shown_up_to_the_limit(start: bytes, media_type: str) -> None:
    """Issue 49, item 4: the five types and the size that docs/security.md names."""
    assert MAX_ICON_BYTES == 64 * 1024
    whole = start.ljust(MAX_ICON_BYTES)
    found = find_icon([{"src": data_url(whole)}])
    assert found is not None and (found.media_type, found.data) == (media_type, whole)
    assert find_icon([{"src": data_url(whole + b" ")}]) is None


@pytest.mark.parametrize(
    "source",
    [
        data_url(PNG + b"x" * MAX_ICON_BYTES),
        data_url(b"<html><script>alert(1)</script>"),
        data_url(b"<!DOCTYPE svg [<!ENTITY a 'b'>]><svg>&a;</svg>", SVG),
        data_url(PNG, "text/html"),
        "data:image/png;base64,%%%",
        "javascript:alert(1)",
        *HOSTILE,
        7,
        None,
    ],
    ids=lambda each: str(each)[:20].encode("unicode_escape").decode(),
)
def test_anything_else_is_not_a_picture(source: Any) -> None:
    """T14.2, S24: also values of other types, which a mounted server may send."""
    assert find_icon([{"src": source}]) is None
    assert find_icon(source) is None
    assert find_icon([source]) is None


@pytest.mark.parametrize(
    ("title", "letter"),
    [("notes", "N"), ("<b>", "B"), ("\u202eé", "É"), ("ßa", "S"), ("!", "#"), ("", "#")],
)
def test_a_letter_stands_for_a_title(title: str, letter: str) -> None:
    assert first_letter(title) == letter


def test_a_name_has_the_same_tint_in_each_process() -> None:
    assert (choose_tint("notes"), choose_tint("everything")) == (4, 7)
    assert {choose_tint(str(number)) for number in range(100)} == set(range(TINTS))
