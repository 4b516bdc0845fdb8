"""Results of a tool of a toolset that a jq expression shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from patchbay.processes.jq_processes import JqProcesses
from patchbay.shaping.results import EXPRESSIONS
from tests.hubs import Hub
from tests.kinds.toolset.sets import INLINE, hub_with, listed, problems, toolset, write

LEDGER = '''"""A ledger."""

from typing import TypedDict


class Row(TypedDict):
    id: int
    owner: str
    secret: str


def rows(count: int = 2) -> list[Row]:
    """List the rows."""
    return [{"id": 12345678901234567890 + each, "owner": "ann", "secret": "s3cret"} for each in range(count)]


def text(context, whole: str = "a\\nb") -> str:
    """Say something."""
    context.progress(1, 2, "half")
    return whole


def mixed() -> list:
    """Give several kinds of content."""
    return ["visible", {"type": "image", "data": "aGk=", "mimeType": "image/png"}]


def broken(secret: str = "s3cret") -> dict:
    """Fail after some output."""
    raise ValueError("no ledger here")


def owners() -> dict[str, int]:
    """Count the rows of each owner."""
    return {"ann@example.org": 1, "ben@example.org": 2}


def pieces():
    """Say it piece by piece."""
    yield "s3cret one "
    yield "s3cret two"
'''
SHAPED = {
    "short": {"from": "ledger.rows", "result": "[.[] | {id, owner}]"},
    "first": {"from": "ledger.rows", "result": ".[0].owner"},
    "number": {"from": "ledger.rows", "result": "length"},
    "lines": {"from": "ledger.text", "result": 'split("\\n")'},
    "mixed": {"from": "ledger.mixed", "result": "type"},
    "broken": {"from": "ledger.broken", "result": ".x"},
    "each": {"from": "ledger.rows", "result": ".[]"},
    "none": {"from": "ledger.rows", "result": "empty"},
    "added": {"from": "ledger.text", "result": ". + 1"},
    "named": {"from": "ledger.text", "result": ".owner"},
    "refused": {"from": "ledger.text", "result": 'error("no text today")'},
    "pieces": {"from": "ledger.pieces", "result": "length"},
    "keyed": {"from": "ledger.owners", "result": 'error("no owners today")'},
    "capped": {"from": "ledger.text", "result": ". * 100", "max_bytes": 200},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "ledger.py": LEDGER,
        "ledger.mcp.json": INLINE,
        "release.json": toolset(tools=SHAPED),
        "outer.json": toolset(tools={"owners": {"from": "release.short", "result": "map(.owner)"}}),
    }
    found = hub_with(tmp_path_factory.mktemp("jq"), files).as_operator()
    yield found
    found.close()


def result(hub: Hub, tool: str, arguments: Mapping[str, Any] | None = None, server: str = "release") -> dict[str, Any]:
    found = hub.modern(server, "tools/call", {"name": tool, "arguments": dict(arguments or {})}).result
    assert isinstance(found, dict)
    return found


def test_an_expression_gives_the_structured_result_and_its_text(hub: Hub) -> None:
    expected = [{"id": 12345678901234567890 + each, "owner": "ann"} for each in range(2)]
    found = result(hub, "short")
    assert found["structuredContent"] == expected
    assert json.loads(found["content"][0]["text"]) == expected and "s3cret" not in json.dumps(found)
    assert result(hub, "number", {"count": 5})["structuredContent"] == 5


def test_a_text_that_an_expression_gives_is_the_text_of_the_result(hub: Hub) -> None:
    found = result(hub, "first")
    assert found["content"] == [{"type": "text", "text": "ann"}] and "structuredContent" not in found


def test_an_expression_gets_the_text_where_there_is_no_structured_result(hub: Hub) -> None:
    assert result(hub, "lines")["structuredContent"] == ["a", "b"]


def test_an_expression_over_the_result_of_an_expression(hub: Hub) -> None:
    assert result(hub, "owners", server="outer")["structuredContent"] == ["ann", "ann"]


def test_a_tool_with_an_expression_promises_no_structured_result(hub: Hub) -> None:
    assert "outputSchema" in listed(hub, "ledger")["rows"]
    assert not any("outputSchema" in one for one in listed(hub).values())


def test_nothing_but_the_value_of_the_expression_reaches_the_caller(hub: Hub) -> None:
    assert len(result(hub, "mixed")["content"]) == 1
    answer = hub.modern("release", "tools/call", {"name": "pieces", "_meta": {"progressToken": 1}})
    assert "s3cret" not in answer.body.decode() and "21" in answer.body.decode()


def test_a_failure_of_the_origin_is_not_shaped(hub: Hub) -> None:
    found = result(hub, "broken")
    assert found["isError"] and "no ledger here" in found["content"][0]["text"]


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("each", "the jq expression .[] failed for an array of 2 values: it gives several values"),
        ("none", "the jq expression empty failed for an array of 2 values: it gives no value"),
        ("named", "the jq expression .owner failed for a text of 3 characters: Cannot index string with"),
        ("refused", 'the jq expression error("no text today") failed for a text of 3 characters: no text today'),
    ],
)
def test_an_expression_that_fails_is_named_with_the_form_of_what_it_was_given(
    hub: Hub, tool: str, sentence: str
) -> None:
    found = result(hub, tool)
    assert found["isError"] and sentence in found["content"][0]["text"]


def test_the_error_of_an_expression_has_no_part_of_the_value(hub: Hub) -> None:
    found = result(hub, "added", {"whole": "s3cret"})
    assert found["isError"] and "the log of the hub has the reason" in found["content"][0]["text"]
    assert "s3cret" not in json.dumps(found)


def test_the_error_of_an_expression_names_no_member_and_the_log_does(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    """The names of members may be what the expression is there to leave out."""
    text = json.dumps(result(hub, "keyed"))
    assert "failed for an object with 2 members" in text and "example.org" not in text
    assert "for an object with the members ann@example.org, ben@example.org" in caplog.text


def test_the_size_limit_is_for_what_the_expression_gives(hub: Hub) -> None:
    text, link = result(hub, "capped")["content"]
    assert len(text["text"]) < 400 and link["size"] == 300


def test_an_expression_that_is_not_valid_breaks_its_entry_alone(hub: Hub) -> None:
    tools = {"a": {"from": "ledger.rows", "result": ".[\n ]] | foo"}, "b": {"from": "ledger.rows", "result": "length"}}
    write(hub, "wrong.json", toolset(tools=tools))
    assert set(listed(hub, "wrong")) == {"b"}
    reason = problems(hub, "wrong")["tools.a.result"]
    assert reason.startswith("not listed: the jq expression .[ ]] | foo is not valid: ") and "(line 2," in reason


def test_an_expression_that_does_not_fit_the_output_schema_breaks_its_entry_until_it_fits_again(hub: Hub) -> None:
    write(hub, "changing.py", LEDGER)
    write(hub, "shaped.json", toolset(tools={"a": {"from": "changing.rows", "result": "map(.owner)"}}))
    assert set(listed(hub, "shaped")) == {"a"}
    write(hub, "changing.py", LEDGER.replace("list[Row]", "int").replace("return [{", "return 1 or [{"))
    assert listed(hub, "shaped") == {}
    assert (
        "does not fit the outputSchema of its origin: Cannot iterate over number"
        in (problems(hub, "shaped")["tools.a.result"])
    )
    write(hub, "changing.py", LEDGER)
    assert set(listed(hub, "shaped")) == {"a"}


def test_the_processes_of_expressions_end_with_the_hub(hub: Hub, tmp_path: Any) -> None:
    other = hub_with(tmp_path, {"release.json": toolset(tools={"a": {"from": "time.now", "result": "length"}})})
    other = other.as_operator()
    assert result(other, "a")["structuredContent"] == 11
    kept: JqProcesses = other.catalogue.hub.find_kept(EXPRESSIONS.partition(" ")[0])
    assert len(kept.pids()) == 1
    other.close()
    assert kept.pids() == []
