"""Wrong names of arguments give the similar ones and the signature of the tool (issue 17 item 4)."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.client.contracts.wrong_arguments import describe_wrong_arguments

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"gene": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
    "required": ["gene"],
}
SIGNATURE = "The tool is search(gene: string, limit?: integer = 10)"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["gene"], ""),
        (["gene", "limit"], ""),
        (["gene", "limits"], f"there is no argument 'limits'; did you mean 'limit'? {SIGNATURE}"),
        (["genes"], f"there is no argument 'genes'; did you mean 'gene'? {SIGNATURE}"),
        (
            ["genes", "xyz"],
            f"there is no argument 'genes'; did you mean 'gene'? there is no argument 'xyz'; there are: gene, limit."
            f" {SIGNATURE}",
        ),
        (["gene", "xyz"], f"there is no argument 'xyz'; there are: gene, limit. {SIGNATURE}"),
        ([], f"the argument 'gene' is missing. {SIGNATURE}"),
    ],
)
def test_wrong_names_are_described_with_similar_names_and_the_signature(given: list[str], text: str) -> None:
    assert describe_wrong_arguments({"name": "search", "inputSchema": SEARCH}, given) == text


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        {},
        {"additionalProperties": True},
        {**SEARCH, "additionalProperties": {}, "required": []},
        {**SEARCH, "patternProperties": {"^x": {}}, "required": []},
    ],
)
def test_a_schema_that_allows_other_names_has_no_wrong_ones(schema: Any) -> None:
    assert describe_wrong_arguments({"name": "any", "inputSchema": schema}, ["x"]) == ""


def test_a_tool_without_arguments_says_so() -> None:
    tool = {"name": "now", "inputSchema": {"type": "object", "additionalProperties": False}}
    expected = "there is no argument 'x', and no other argument. The tool is now()"
    assert describe_wrong_arguments(tool, ["x"]) == expected
