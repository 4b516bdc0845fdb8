"""Answers as records, also those that are in no form of the protocol's."""

from __future__ import annotations

from typing import Any

import pytest
from click import unstyle

from patchbay.cli.terminal.descriptions import format_inspection
from patchbay.client.errors import McpFailure
from patchbay.client.sources.records import make_call_records, make_prompt_records, make_resource_records


@pytest.mark.parametrize("odd", ["text", ["text"], {"type": "text"}, 5, [None]])
def test_a_result_that_breaks_the_protocol_is_an_error(odd: Any) -> None:
    """J-F7: so that it is an error record, and the next record is tried."""
    with pytest.raises(McpFailure, match="'content' is not a list of objects"):
        list(make_call_records("t", {"content": odd}))
    with pytest.raises(McpFailure, match="'contents' is not a list of objects"):
        list(make_resource_records({"contents": odd}))
    with pytest.raises(McpFailure, match="'messages' is not a list of objects"):
        list(make_prompt_records("p", {"messages": odd}))


def test_fields_beside_the_content_may_have_any_value() -> None:
    assert list(make_call_records("t", {"_meta": 5})) == [{"type": "tool_result", "tool": "t"}]
    assert [one["role"] for one in make_prompt_records("p", {"messages": [{"role": "user"}]})] == ["user"]


def test_malformed_list_items_are_shown_as_far_as_possible() -> None:
    """JN-34."""
    tool = {"name": "t", "inputSchema": {"properties": {"a": {"description": "A"}}, "required": True}}
    prompt = {"name": "p", "arguments": ["x", {"name": "b"}]}
    text = unstyle(format_inspection({"server": "s", "tools": [tool], "prompts": [prompt]}))
    assert "      a: A" in text and "      b:" in text
