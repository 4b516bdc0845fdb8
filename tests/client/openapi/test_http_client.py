"""Answers of HTTP APIs: the links that their headers carry."""

from __future__ import annotations

import httpx2
import pytest

from patchbay.client.openapi.http_client import Reply


@pytest.mark.parametrize(
    ("header", "relation", "expected"),
    [
        ('<https://a/2>; rel="next"', "next", "https://a/2"),
        ("</2>; rel=next", "next", "/2"),
        ('<x>; rel="prev", </2>; title="two"; rel="NEXT"', "next", "/2"),
        ('<a>; rel="first next"', "next", "a"),
        ('</openapi.json>; rel="service-desc"; type="application/json"', "service-desc", "/openapi.json"),
        ('<a>; rel="nextmost"', "next", ""),
        ("<a>", "next", ""),
        ("", "next", ""),
    ],
)
def test_a_link_is_found_by_its_relation_in_any_case_and_among_others(
    header: str, relation: str, expected: str
) -> None:
    """RFC 8288 section 3.3: a link has one or more relation types, which are compared without case."""
    reply = Reply("https://a/1", 200, httpx2.Headers({"Link": header} if header else {}), b"")
    assert reply.find_link(relation) == expected
