"""Arguments that a toolset fixes, renames, describes or gives a default: what callers see, and what the origin gets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from patchbay.access.principals import LOCAL_ID, Principal
from patchbay.config import parse_config
from patchbay.errors import ConfigError, WrongArguments
from patchbay.protocol.run_tool import run_tool
from patchbay.shaping.arguments import Argument, make_shaping
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import MODERN, Hub
from tests.kinds.calls import call_of
from tests.kinds.toolset.sets import INLINE, hub_with, listed, problems, toolset

SHAPED = {
    "from": "git.git_log",
    "arguments": {
        "repo_path": {"value": "/srv/product"},
        "max_count": {"name": "count", "default": 20, "description": "How many."},
    },
}
WHO = 'def whose(owner: str, groups: list = None) -> dict:\n    """Say whose."""\n    return {"owner": owner}\n'
PICKY = '''"""Refuses arguments by itself."""


def pick(first_number: int) -> str:
    """Pick a number."""
    raise ValueError(f"first_number must be positive, not {first_number}")
'''
FILES = {"release.json": toolset(tools={"history": SHAPED}), "picky.py": PICKY}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = hub_with(tmp_path_factory.mktemp("arguments"), FILES).as_operator()
    yield found
    found.close()


def value(hub: Hub, arguments: dict[str, Any], server: str = "release", tool: str = "history") -> Any:
    return orjson.loads(hub.call(server, tool, arguments).text)


def test_callers_see_the_shaped_schema(hub: Hub) -> None:
    schema = listed(hub)["history"]["inputSchema"]
    assert set(schema["properties"]) == {"count"}
    assert schema["properties"]["count"]["default"] == 20
    assert schema["properties"]["count"]["description"] == "How many."
    assert "required" not in schema and schema["additionalProperties"] is False


@pytest.mark.parametrize(("given", "count"), [({}, 20), ({"count": 3}, 3)])
def test_the_origin_gets_its_own_names_the_fixed_value_and_the_default(
    hub: Hub, given: dict[str, Any], count: int
) -> None:
    assert value(hub, given) == {"repo": "/srv/product", "count": count}


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", MODERN])
def test_an_error_names_the_argument_that_the_caller_knows(hub: Hub, version: str) -> None:
    answer = hub.call("release", "history", {"count": "many"}, version)
    text = str(answer.last)
    assert "count" in text and "max_count" not in text and "/srv/product" not in text


def test_a_failure_of_the_origin_names_the_argument_that_the_caller_knows(tmp_path: Path) -> None:
    tools = {"pick": {"from": "picky.pick", "arguments": {"first_number": {"name": "number"}}}}
    hub = hub_with(tmp_path, {"picky.py": PICKY, "release.json": toolset(tools=tools)}).as_operator()
    answer = hub.call("release", "pick", {"number": -1})
    assert answer.result["isError"] and "number must be positive" in answer.text
    assert "first_number" not in answer.text
    hub.close()


def test_a_value_is_a_fact_about_the_caller(tmp_path: Path) -> None:
    tools = {"mine": {"from": "who.whose", "arguments": {"owner": {"value": {"caller": "id"}}}}}
    files = {
        "who.py": WHO,
        "who.mcp.json": '{"auto_discover": true, "isolation": "inline"}',
        "release.json": toolset(tools=tools),
    }
    hub = team_hub(tmp_path, files)
    set_grants(hub, {"grants": [{"to": ["*"], "may": ["call"], "on": ["release"]}]})
    for name in ("ann", "ben"):
        key = new_key(hub, name)
        answer = hub.modern("release", "tools/call", {"name": "mine", "arguments": {}}, headers=key)
        assert orjson.loads(answer.text)["owner"] == f"key:{name}"
        other = {"name": "mine", "arguments": {"owner": "key:ann"}}
        assert (
            "error" in hub.modern("release", "tools/call", other, headers=key).last
            or (hub.modern("release", "tools/call", other, headers=key).result["isError"])
        )
    hub.close()


def test_a_value_is_the_verified_address_of_the_caller_and_a_caller_without_one_is_refused(tmp_path: Path) -> None:
    tools = {"mine": {"from": "who.whose", "arguments": {"owner": {"value": {"caller": "email"}}}}}
    hub = hub_with(tmp_path, {"who.py": WHO, "who.mcp.json": INLINE, "release.json": toolset(tools=tools)})
    server = hub.catalogue.find("release")

    def call(sender: Principal) -> str:
        terms = {"principal": sender.id, "sender": sender}
        run = run_tool(hub.catalogue.hub, server, server.tools["mine"], {}, None, terms)
        list(run.events)
        return str(run.result()["content"][0]["text"])

    assert orjson.loads(call(Principal(LOCAL_ID, email="ann@example.org")))["owner"] == "ann@example.org"
    assert call(Principal(LOCAL_ID, name="ann@example.org")).startswith("this tool needs the e-mail address")
    hub.close()


@pytest.mark.parametrize(
    ("arguments", "place", "words"),
    [
        ({"a": {"value": 1, "name": "b"}}, "tools.t.arguments.a", 'expected "value" alone'),
        ({"a": {"value": {"caller": "ids"}}}, "tools.t.arguments.a.value.caller", "did you mean id?"),
        ({"a": {"name": "b"}, "b": {"description": "x"}}, "tools.t.arguments.b.name", "expected another name"),
        ({"a": {"vlaue": 1}}, "tools.t.arguments.a", "did you mean value?"),
        ({"a": {}}, "tools.t.arguments.a", "at least one of value, default, name and description"),
    ],
)
def test_wrong_arguments_of_a_configuration_are_refused_with_their_place(
    arguments: dict[str, Any], place: str, words: str
) -> None:
    text = toolset(tools={"t": {"from": "git.git_log", "arguments": arguments}})
    with pytest.raises(ConfigError) as raised:
        parse_config(text.encode(), "release.json")
    assert raised.value.path == place and words in raised.value.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"repo": {"value": "x"}}, "no argument repo; did you mean repo_path?"),
        ({"max_count": {"value": "many"}}, "the value of max_count does not fit the origin"),
        ({"max_count": {"default": "many"}}, "the value of max_count does not fit the origin"),
        ({"max_count": {"name": "repo_path"}}, "max_count cannot be called repo_path"),
    ],
)
def test_a_tool_that_cannot_be_shaped_is_broken_alone(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    tools = {"history": {"from": "git.git_log", "arguments": arguments}, "clock": "time.now"}
    hub = hub_with(tmp_path, {"release.json": toolset(tools=tools)}).as_operator()
    assert set(listed(hub)) == {"clock"} and words in problems(hub)["tools.history"]
    hub.close()


AB: dict[str, Any] = {"a": {"type": "string"}, "b": {"type": "integer"}}
TWO: dict[str, Any] = {"type": "object", "properties": AB}
DEFINED = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a", "b"],
    "$defs": {"A": {"type": "string"}, "B": {"type": "integer", "minimum": 3}},
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (TWO, [{}, {"b": 1}], [{"b": "x"}, {"a": "s"}]),
        ({**TWO, "required": ["a"]}, [{}, {"b": 1}], [{"a": "s"}]),
        ({**TWO, "required": ["a", "b"]}, [{"b": 1}], [{}]),
        (DEFINED, [{"b": 3}], [{}, {"b": 2}, {"a": "s", "b": 3}]),
        ({**TWO, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{}, {"b": 1}], [{"b": "x"}]),
        ({**TWO, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{}], [{"b": 1}]),
        ({**TWO, "not": {"required": ["a", "b"]}}, [{}], [{"b": 1}]),
        ({**TWO, "allOf": [{"properties": {"a": {"const": "s"}}}, {"required": ["b"]}]}, [{"b": 1}], [{}]),
        ({**TWO, "dependentRequired": {"a": ["b"]}}, [{"b": 1}], [{}]),
        ({**TWO, "dependentRequired": {"b": ["a"]}}, [{}, {"b": 1}], [{"b": "x"}]),
        ({**TWO, "dependentSchemas": {"a": {"required": ["b"]}}}, [{"b": 1}], [{}]),
        (
            {**TWO, "if": {"properties": {"a": {"const": "s"}}}, "then": {"required": ["b"]}, "else": False},
            [{"b": 1}],
            [{}],
        ),
        (
            {**TWO, "if": {"properties": {"a": {"const": "t"}}}, "then": {"required": ["b"]}},
            [{}, {"b": 1}],
            [{"b": ""}],
        ),
        ({**TWO, "minProperties": 2}, [{"b": 1}], [{}]),
        ({**TWO, "maxProperties": 1}, [{}], [{"b": 1}]),
        ({"$ref": "#/$defs/T", "$defs": {"T": {"required": ["b"]}}, **TWO}, [{"b": 1}], [{}]),
    ],
)
def test_a_fixed_argument_is_decided_everywhere_in_the_schema(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    """The shaped schema takes exactly what the origin takes together with the fixed value, and no fixed argument."""
    shown = make_shaping({"a": Argument(value=("s",))}, schema, False).shown
    assert '"a"' not in orjson.dumps(shown).decode()
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **shown})
    checker = jsonschema_rs.Draft202012Validator(dict(shown))
    whole = jsonschema_rs.Draft202012Validator(schema)
    assert [checker.is_valid(one) for one in good] == [True] * len(good)
    assert [checker.is_valid(one) for one in bad] == [False] * len(bad)
    for one in (each for each in (*good, *bad) if "a" not in each):
        assert checker.is_valid(one) == whole.is_valid({"a": "s", **one})


@pytest.mark.parametrize(
    "schema",
    [
        {**TWO, "additionalProperties": True},
        {**TWO, "additionalProperties": {}},
        {**TWO, "additionalProperties": {"description": "Anything else."}},
        {**TWO, "additionalProperties": {"$ref": "#/$defs/Any"}, "$defs": {"Any": True}},
        {**TWO, "unevaluatedProperties": True},
        {**TWO, "allOf": [{"additionalProperties": True}]},
        {**TWO, "anyOf": [{"required": ["b"], "unevaluatedProperties": {}}]},
        {"type": "object", "$ref": "#/$defs/T", "$defs": {"T": {**TWO, "additionalProperties": True}}, **TWO},
    ],
)
def test_with_a_fixed_argument_the_origin_gets_no_argument_that_it_does_not_describe(schema: dict[str, Any]) -> None:
    shaping = make_shaping({"a": Argument(value=("s",))}, schema, True)
    call = call_of({})
    assert shaping.make_arguments({"b": 1}, call) == {"a": "s", "b": 1}
    with pytest.raises(WrongArguments) as raised:
        shaping.make_arguments({"b": 1, "path": "other"}, call)
    assert "path" in raised.value.message


def test_other_arguments_that_the_origin_describes_stay() -> None:
    schema = {**TWO, "additionalProperties": {"type": "string"}}
    shaping = make_shaping({"a": Argument(value=("s",))}, schema, True)
    assert shaping.make_arguments({"label": "x"}, call_of({})) == {"a": "s", "label": "x"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({**TWO, "patternProperties": {"^a": {"type": "string"}}}, "patternProperties"),
        ({**TWO, "propertyNames": {"maxLength": 3}}, "propertyNames"),
        ({"type": "object", "properties": {**AB, "c": {"$ref": "#"}}}, "refers to #"),
        ({"type": "object", "properties": {**AB, "c": {"$ref": "#/properties/a"}}}, "#/properties/a"),
        ({**TWO, "$ref": "#/$defs/T", "$defs": {"T": {"$ref": "#/$defs/T"}}}, "lead too far, or back"),
        ({**TWO, "$ref": "#/$defs/T"}, "'/$defs/T' does not exist"),
        ({**TWO, "$id": "https://a.example/x"}, "has $id"),
        ({**TWO, "allOf": [{"properties": {"a": {"const": "t"}}}]}, "do not fit the schema"),
    ],
)
def test_a_schema_that_cannot_be_shaped_is_refused_with_the_reason(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_shaping({"a": Argument(value=("s",))}, schema, False)
    assert words in raised.value.expected


ODD: list[dict[str, Any]] = [
    {"minProperties": "x"},
    {"minProperties": float("inf")},
    {"maxProperties": 1e300},
    {"required": 5},
    {"required": [{}]},
    {"allOf": 5},
    {"allOf": [{"properties": 5}]},
    {"anyOf": [7]},
    {"if": []},
    {"dependentRequired": [1]},
    {"dependentRequired": {"a": [{}]}},
    {"dependentSchemas": [1]},
    {"$defs": 5, "$ref": "#/$defs/T"},
]
DRAFTS: list[dict[str, Any]] = [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("draft", DRAFTS, ids=["2020-12", "draft-07"])
def test_what_is_no_json_schema_is_refused(odd: dict[str, Any], draft: dict[str, Any]) -> None:
    """A validator takes any value of a member that the draft of `$schema` does not know."""
    with pytest.raises(ConfigError) as raised:
        make_shaping({"a": Argument(value=("s",)), "b": Argument(name="c")}, {**TWO, **odd, **draft}, True)
    assert raised.value.where == "" and "schema" in raised.value.expected and "\n" not in raised.value.expected


def test_references_that_lead_to_very_many_parts_are_refused() -> None:
    pairs = {f"T{step}": {"allOf": [{"$ref": f"#/$defs/T{step + 1}"}] * 2} for step in range(12)}
    schema = {**TWO, "$ref": "#/$defs/T0", "$defs": {**pairs, "T12": {"required": ["b"]}}}
    with pytest.raises(ConfigError) as raised:
        make_shaping({"a": Argument(value=("s",))}, schema, True)
    assert "more than 1000 parts" in raised.value.expected


def test_a_renamed_argument_has_its_new_name_everywhere_in_the_schema() -> None:
    schema = {
        **TWO,
        "required": ["b"],
        "dependentRequired": {"b": ["a"]},
        "anyOf": [{"required": ["b"]}, {"properties": {"b": {"minimum": 7}}}],
    }
    shown = make_shaping({"b": Argument(name="number")}, schema, False).shown
    assert '"b"' not in orjson.dumps(shown).decode()
    checker = jsonschema_rs.Draft202012Validator(dict(shown))
    assert checker.is_valid({"number": 1, "a": "x"}) and not checker.is_valid({"number": 1})
