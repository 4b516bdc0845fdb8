"""Matching URIs against URI templates."""

from __future__ import annotations

import time

import pytest
import uritemplate
from hypothesis import given
from hypothesis import strategies as st

from patchbay.catalogue.reading.uri_templates import compile_template, expand_template
from patchbay.errors import ConfigError, InvalidParams


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("a://{x}", "a://b%20c", {"x": "b c"}),
        ("a://{x}", "a://b/c", None),
        ("a://{x}", "a://", None),
        ("a://{+x}", "a://b/c", {"x": "b/c"}),
        ("a://{+x}/end", "a://b/c/end", {"x": "b/c"}),
        ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
        ("a://{x}-{y}", "a://1-2-3", {"x": "1", "y": "2-3"}),
        ("a://{x}.json", "a://a.json.json", {"x": "a.json"}),
        ("a://{x,y}", "a://1,2", {"x": "1", "y": "2"}),
        ("a:/{/x,y}", "a://1/2", {"x": "1", "y": "2"}),
        ("a://f{.ext}", "a://f.txt", {"ext": "txt"}),
        ("a://f{;x,y}", "a://f;x=1;y=2", {"x": "1", "y": "2"}),
        ("a://f{#z}", "a://f#/a/b", {"z": "/a/b"}),
        ("a://q{?a,b}", "a://q?b=1&a=%C3%A9", {"a": "é", "b": "1"}),
        ("a://q{?a,b}", "a://q", {}),
        ("a://q{?a}", "a://q?c=1", None),
        ("a://q?z=1{&a}", "a://q?z=1&a=2", {"a": "2"}),
        ("a.b://{x}", "aXb://1", None),
    ],
)
def test_a_uri_gives_its_variables_back(template: str, uri: str, expected: dict[str, str] | None) -> None:
    """VWR-27, RFC 6570"""
    assert compile_template(template).match(uri) == expected


@pytest.mark.parametrize("template", ["a://b", "a://{", "a://{x", "a://{x}{y}", "a://{x}{x}", "a://{x*}", "a://{!x}"])
def test_a_template_that_cannot_be_read_backwards_is_refused(template: str) -> None:
    with pytest.raises(ConfigError):
        compile_template(template)


@pytest.mark.parametrize("uri", ["a://%", "a://%zz", "a://%ff"])
def test_wrong_percent_encoding_is_reported(uri: str) -> None:
    """T6.6"""
    with pytest.raises(InvalidParams, match="percent-encoded"):
        compile_template("a://{x}").match(uri)


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_a_uri_of_an_independent_expansion_is_matched(first: str, second: str) -> None:
    """RFC 6570, checked against the uritemplate library"""
    template = "note://{first}/about{?second}"
    uri = uritemplate.expand(template, first=first, second=second)
    assert compile_template(template).match(uri) == {"first": first, "second": second}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a://{a}-{b}-{c}-{d}-{e}!", "a://" + "-" * 8000),
        ("a://{+a}x{+b}x{+c}x{+d}y", "a://" + "x" * 8000),
        ("a://{a}", "a://" + "b" * 1_000_000),
        ("a://{a}{?b}{?c}{?d}{?e}{&f}", "a://a" + "?&" * 4000 + "#"),
    ],
)
def test_a_hostile_uri_takes_no_time(template: str, uri: str) -> None:
    begun = time.thread_time()
    assert compile_template(template).match(uri) is None
    assert time.thread_time() - begun < 1


@given(
    st.sampled_from(
        [
            *("a://{x}/{y}", "a://{+x}", "a://f{#x}", "a://f{.x,y}", "a:/{/x,y}", "a://f{;x,y}", "a://q{?x,y}"),
            *("a://q?z=1{&x}", "a://{x,y}", "{+x}", "a://{x}.json{?y}"),
        ]
    ),
    st.dictionaries(st.sampled_from("xy"), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"))),
)
def test_a_template_is_expanded_as_the_standard_says(template: str, values: dict[str, str]) -> None:
    """RFC 6570, section 3.2; a variable without a value is left out."""
    assert expand_template(template, values) == uritemplate.expand(template, {**values})
