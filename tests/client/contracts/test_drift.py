"""Drift: every kind of change of a tool, its verdict and its sentence."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.client.contracts.canonical_json import ContractError, encode_canonical_json
from patchbay.client.contracts.contract import compute_contract_cid, compute_schema_hash
from patchbay.client.contracts.drift import detect_schema_changes, find_gravest_kind, get_contract_fields
from tests.client.tools import OTHER, SEARCH


def tool(properties: dict[str, Any], required: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {"name": "t", "inputSchema": schema | ({"required": required} if required else {}), **fields}


def changes(old: dict[str, Any], new: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    return [
        (one.kind, one.sentence.removeprefix("Tool 't': ")) for one in detect_schema_changes([old], [new], **options)
    ]


S = {"type": "string"}
INPUT: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    (tool({}), tool({"a": S}, ["a"]), [("breaking", "New required parameter 'a' added")]),
    (tool({"a": S}, ["a"]), tool({}), [("breaking", "Required parameter 'a' removed")]),
    (
        tool({"gene": S}, ["gene"]),
        tool({"query": S, "filters": {"type": "object"}}, ["query"]),
        [
            ("breaking", "Required parameter 'gene' renamed to 'query'"),
            ("non-breaking", "New optional parameter 'filters' added"),
        ],
    ),
    (
        tool({"a": S}),
        tool({"a": {"type": "integer"}}),
        [("breaking", "Type of parameter 'a' changed from string to integer")],
    ),
    (
        tool({"a": S}),
        tool({"a": {"anyOf": [S, {"type": "null"}]}}),
        [("non-breaking", "Type of parameter 'a' changed from string to string or null")],
    ),
    (
        tool({"a": {"type": "number"}}),
        tool({"a": {"type": "integer"}}),
        [("breaking", "Type of parameter 'a' changed from number to integer")],
    ),
    (tool({}), tool({"a": S}), [("non-breaking", "New optional parameter 'a' added")]),
    (tool({"a": S}), tool({"a": S}, ["a"]), [("breaking", "Parameter 'a' is now required")]),
    (tool({"a": S}, ["a"]), tool({"a": S}), [("non-breaking", "Parameter 'a' is no longer required")]),
    (
        tool({"a": {"enum": ["x", "y"]}}),
        tool({"a": {"enum": ["x"]}}),
        [("breaking", "Parameter 'a' no longer accepts \"y\"")],
    ),
    (
        tool({"a": {"enum": ["x"]}}),
        tool({"a": {"enum": ["x", "y"]}}),
        [("non-breaking", "Parameter 'a' now also accepts \"y\"")],
    ),
    (tool({"a": S}), tool({"a": {**S, "enum": ["x"]}}), [("breaking", "Parameter 'a' now accepts only \"x\"")]),
    (
        tool({"a": {**S, "const": "x"}}),
        tool({"a": S}),
        [("non-breaking", "Parameter 'a' is no longer limited to \"x\"")],
    ),
    (
        tool({"a": {"default": 1}}),
        tool({"a": {"default": 2}}),
        [("review", "Default of parameter 'a' changed from 1 to 2")],
    ),
    (
        tool({"a": {"default": None}}),
        tool({"a": {}}),
        [("review", "Default of parameter 'a' changed from null to not set")],
    ),
    (
        tool({"a": {"maximum": 9}}),
        tool({"a": {"maximum": 5}}),
        [("breaking", "maximum of parameter 'a' changed from 9 to 5")],
    ),
    (
        tool({"a": {"minLength": 2}}),
        tool({"a": {}}),
        [("non-breaking", "minLength of parameter 'a' changed from 2 to not set")],
    ),
    (
        tool({"a": {}}),
        tool({"a": {"pattern": "x"}}),
        [("breaking", "pattern of parameter 'a' changed from not set to \"x\"")],
    ),
    (
        tool({"a": {"pattern": "x"}}),
        tool({"a": {"pattern": "y"}}),
        [("review", 'pattern of parameter \'a\' changed from "x" to "y"')],
    ),
    (tool({"a": {}}), tool({"a": {"x-new": 1}}), [("review", "x-new of parameter 'a' changed from not set to 1")]),
    (tool({"a": S}), tool({"a": {**S, "description": "d"}}), [("review", "Description of parameter 'a' changed")]),
    (tool({"a": S}), tool({"a": {**S, "title": "A"}}), [("non-breaking", "Title of parameter 'a' changed")]),
    (
        tool({"a": {"properties": {"b": S}}}),
        tool({"a": {"properties": {"b": S, "c": S}, "required": ["c"]}}),
        [("breaking", "New required parameter 'a.c' added")],
    ),
    (
        tool({"a": {"type": "array", "items": S}}),
        tool({"a": {"type": "array", "items": {"type": "integer"}}}),
        [("breaking", "Type of parameter 'a[]' changed from string to integer")],
    ),
    (tool({"a": S}), tool({"a": S}, title="T"), [("non-breaking", "Title changed")]),
    (tool({}, description="a"), tool({}, description="b"), [("review", "Description changed")]),
    (
        tool({}, description="a"),
        tool({}, description="a\U000e0041"),
        [("review", "Description changed and now has invisible characters (U+E0041)")],
    ),
    (
        tool({}, annotations={"readOnlyHint": True}),
        tool({}),
        [("review", "readOnlyHint changed from true to not set")],
    ),
    (
        tool({}, annotations={"readOnlyHint": True, "destructiveHint": False}),
        tool({}, annotations={"readOnlyHint": False, "destructiveHint": True}),
        [
            ("review", "destructiveHint changed from false to true"),
            ("review", "readOnlyHint changed from true to false"),
        ],
    ),
    (
        tool({}),
        tool({}, annotations={"readOnlyHint": False}),
        [("non-breaking", "readOnlyHint is now false, which means the same as not set")],
    ),
    (
        tool({}, execution={"taskSupport": "optional"}),
        tool({}, execution={"taskSupport": "required"}),
        [("breaking", 'taskSupport changed from "optional" to "required"')],
    ),
    (
        tool({"a": {"$ref": "#/$defs/a"}})
        | {"inputSchema": {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": S}}},
        tool({"a": S}) | {"inputSchema": {"properties": {"a": S}}},
        [("review", "Definition changed in a way that has no known effect on calls")],
    ),
    (
        {"name": "t", "inputSchema": {"type": "object", "additionalProperties": True}},
        {"name": "t", "inputSchema": {"type": "object", "additionalProperties": False}},
        [("breaking", "additionalProperties of the parameters changed from not set to false")],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), INPUT)
def test_each_change_has_its_verdict(old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """JN-45: breaking, non-breaking or to be reviewed, with a sentence."""
    assert changes(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"type": "object"}, [("non-breaking", "Output schema added")]),
        ({"type": "object"}, None, [("review", "Output schema removed")]),
        (
            {"properties": {"a": S}},
            {"properties": {"a": {"type": "integer"}}},
            [("review", "Type of output field 'a' changed from string to integer")],
        ),
        ({"properties": {"a": S}}, {"properties": {}}, [("review", "Optional output field 'a' removed")]),
        (
            {"properties": {"a": {"enum": ["x"]}}},
            {"properties": {"a": {"enum": ["x", "y"]}}},
            [("review", "Output field 'a' now also accepts \"y\"")],
        ),
        (
            {"properties": {"a": S}},
            {"properties": {"a": S}, "required": ["a"]},
            [("non-breaking", "Output field 'a' is now required")],
        ),
    ],
)
def test_changes_of_the_output_are_behaviour(old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    """JN-45: changes of the output break no call; they are for review."""
    assert changes(tool({}, outputSchema=old), tool({}, outputSchema=new)) == expected


def test_an_unused_optional_parameter_breaks_nothing() -> None:
    """JN-45: removed optional parameters are non-breaking when the profile does not use them."""
    old, new = tool({"a": S}), tool({})
    assert changes(old, new) == [("breaking", "Optional parameter 'a' removed")]
    assert changes(old, new, used={"t": []}) == [("non-breaking", "Optional parameter 'a' removed")]
    assert changes(old, new, used={"t": ["a"]}) == [("breaking", "Optional parameter 'a' removed")]
    gone = detect_schema_changes([SEARCH, OTHER], [SEARCH], {"search": ["gene"]})
    assert [(one.kind, one.sentence) for one in gone] == [
        ("non-breaking", "Tool 'other': Removed (not used by the profile)")
    ]


def test_tools_come_go_and_are_renamed() -> None:
    """JN-45: a removed tool is breaking, a new one is not, one of the same input and words is renamed."""
    found = detect_schema_changes([SEARCH, OTHER], [{**SEARCH, "name": "find"}, {"name": "new"}])
    assert [(one.tool, one.kind, one.sentence) for one in found] == [
        ("other", "breaking", "Tool 'other': Removed"),
        ("search", "breaking", "Tool 'search': Renamed to 'find'"),
        ("new", "non-breaking", "Tool 'new': New tool added"),
    ]
    assert find_gravest_kind(found) == "breaking" and find_gravest_kind([]) is None


def test_a_tool_of_another_input_is_not_taken_for_a_renamed_one() -> None:
    """JN-45: the same words and a name that is alike do not make a rename where the input is another."""
    other = {**SEARCH, "name": "search_all", "inputSchema": tool({"other": {"type": "integer"}})["inputSchema"]}
    found = detect_schema_changes([SEARCH], [other])
    assert [(one.tool, one.kind, one.sentence) for one in found] == [
        ("search", "breaking", "Tool 'search': Removed"),
        ("search_all", "non-breaking", "Tool 'search_all': New tool added"),
    ]


def test_values_that_are_not_lists_of_tools_are_refused() -> None:
    lists: list[Any] = [[{}], [1], [SEARCH, SEARCH]]
    for bad in lists:
        with pytest.raises(ContractError):
            detect_schema_changes(bad, [])


def test_cyclic_schemas_are_compared_in_time() -> None:
    levels: dict[str, Any] = {
        f"a{n}": {"properties": {key: {"$ref": f"#/$defs/a{n + 1}"} for key in "xy"}} for n in range(60)
    }
    levels["a60"] = {"$ref": "#/$defs/a0"}
    old = {"name": "t", "inputSchema": {"properties": {"p": {"$ref": "#/$defs/a0"}}, "$defs": levels}}
    new: Any = copy.deepcopy(old)
    new["inputSchema"]["properties"]["q"] = S
    found = [one.sentence for one in detect_schema_changes([old], [new])]
    assert any("too large to compare completely" in one for one in found)


SCHEMA = st.recursive(
    st.sampled_from(
        [
            True,
            False,
            {},
            {"type": "string"},
            {"type": ["integer", "null"]},
            {"enum": ["a", 1]},
            {"$ref": "#/$defs/d"},
            {"$ref": "#"},
            {"minimum": 1},
            {"default": 0},
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", 5]),
            "properties": st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
            "required": st.lists(st.sampled_from("abcd"), max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "additionalProperties": inner,
            "description": st.sampled_from(["x", "y"]),
            "$defs": st.fixed_dictionaries({"d": inner}),
        },
    ),
    max_leaves=8,
)
TOOL = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={
        "inputSchema": SCHEMA,
        "outputSchema": SCHEMA,
        "description": st.sampled_from(["x", "y", None]),
        "annotations": st.dictionaries(st.sampled_from(["readOnlyHint", "title", "other"]), st.booleans()),
    },
)
TOOLS = st.lists(TOOL, max_size=2, unique_by=lambda one: one["name"])


@settings(max_examples=300, deadline=None)
@given(TOOLS, TOOLS)
def test_there_are_changes_exactly_when_contracts_differ(old: list[Any], new: list[Any]) -> None:
    """JN-45: equal contracts have no changes, different ones at least one; the CID says the same."""

    def all_of(tools: list[Any]) -> bytes:
        return encode_canonical_json(sorted((get_contract_fields(one) for one in tools), key=lambda one: one["name"]))

    found = detect_schema_changes(old, new)
    assert bool(found) == (all_of(old) != all_of(new)) == (compute_contract_cid(old) != compute_contract_cid(new))
    assert detect_schema_changes(old, copy.deepcopy(old)) == []
    assert all(len(compute_schema_hash(tools)) == 64 for tools in (old, new))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("getCurrentTime", "get_current_time"),
        ("list-specs", "listSpecs"),
        ("HTTPFetch", "http.fetch"),
        ("getUserV2", "get_user_v2"),
    ],
)
def test_a_rename_into_another_style_is_recognised_when_the_schemas_agree(before: str, after: str) -> None:
    """Texts inside the schema may have changed too; a parameter may not."""
    old = tool({"a": {**S, "description": "One"}}, ["a"], description="Old words") | {"name": before}
    new = tool({"a": {**S, "title": "A", "description": "Two"}}, ["a"], description="New words") | {"name": after}
    found = detect_schema_changes([old], [new])
    renamed = f"Tool '{before}': Renamed to '{after}'"
    assert [one.sentence for one in found if one.path == "/name"] == [renamed]
    other = tool({"b": S}, ["b"]) | {"name": after}
    assert f"Tool '{before}': Removed" in [one.sentence for one in detect_schema_changes([old], [other])]


def test_a_schema_with_thousands_of_renamed_properties_is_compared_without_a_search_for_renames() -> None:
    """The search grows with the square of the properties; a hostile server would keep a page busy for minutes."""
    old, new = ({"type": "object", "properties": {f"{word}{n}": {} for n in range(5_000)}} for word in "ab")
    found = detect_schema_changes([{"name": "t", "inputSchema": old}], [{"name": "t", "inputSchema": new}])
    assert found and not [change for change in found if "renamed" in change.sentence]
