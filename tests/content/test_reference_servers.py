"""What a fresh install serves: each definition does what its configuration says, and nothing else."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from tests.checkout import ROOT

REFERENCE = ROOT / "reference_templates"
SERVERS = ["echo", "markdown", "jq", "date", "mcp"]


def module(path: Path) -> ModuleType:
    """A definition, loaded under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"definition_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def definition(name: str) -> ModuleType:
    return module(REFERENCE / "servers" / "definitions" / f"{name}.py")


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((REFERENCE / "mcps" / "configs" / f"{name}.json").read_text())
    return loaded


# Configurations


@pytest.mark.parametrize("name", SERVERS)
def test_every_configuration_is_what_the_shipped_schema_asks_for(name: str) -> None:
    """VWR-14, VWR-15"""
    schema = json.loads((ROOT / "patchbay" / "mcps.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(config(name))


@pytest.mark.parametrize("name", SERVERS)
def test_every_reference_server_says_that_it_changes_nothing(name: str) -> None:
    """X-17: that is why the read-only boot may offer them."""
    assert config(name)["annotations"]["readOnlyHint"] is True


def test_the_static_tools_and_resources_are_those_of_the_plan() -> None:
    """VWR-14, VWR-17"""
    echo, markdown = config("echo"), config("markdown")
    assert echo["tools"]["echo"]["inputSchema"]["required"] == ["message"]
    last = echo["resources"]["last-echo"]
    assert (last["uri"], last["mimeType"], last["last_output_of"]) == ("echo://last", "text/plain", "echo")
    assert markdown["tools"]["convert"]["inputSchema"]["required"] == ["markdown"]
    assert config("jq")["auto_discover"] is config("date")["auto_discover"] is True


def test_the_prompt_uses_each_of_its_arguments_and_no_other() -> None:
    """V-C12"""
    prompt = config("markdown")["prompts"]["draft"]
    used = set(re.findall(r"\{\{(\w+)\}\}", json.dumps(prompt["messages"])))
    assert used == {argument["name"] for argument in prompt["arguments"]}
    assert set(config("markdown")["completions"]["draft"]) <= used


@pytest.mark.parametrize(
    ("args", "good"),
    [("", True), ("+%Y-%m-%d", True), ("--file=/etc/passwd", False), ("-s12:00", False), ("x\n+%s", False)],
)
def test_date_takes_formats_but_no_options_that_read_files_or_set_the_clock(args: str, good: bool) -> None:
    schema = config("date")["tools"]["date"]["inputSchema"]
    assert jsonschema.Draft202012Validator(schema).is_valid({"args": args}) is good


# Shell definitions


@pytest.mark.parametrize("name", ["echo", "date"])
def test_shell_definitions_are_in_viewers_form(name: str) -> None:
    """V-F11"""
    text = (REFERENCE / "servers" / "definitions" / f"{name}.sh").read_text()
    assert text.splitlines()[0] == f"@bash_command {name}"


# Markdown


def test_markdown_becomes_html_with_tables() -> None:
    """T8.3"""
    made = definition("markdown").main("# Hi\n\n*there*\n\n| a | b |\n| - | - |\n| 1 | 2 |\n")
    assert made["content_type"] == "text/html"
    assert "<h1>Hi</h1>" in made["output"] and "<em>there</em>" in made["output"] and "<td>2</td>" in made["output"]


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        '<a href="java\tscript:alert(1)">x</a>',
        "<iframe src='https://example.org'></iframe>",
        "<svg><script>alert(1)</script></svg>",
        "<style>* { color: red }</style>",
    ],
)
def test_markdown_lets_nothing_through_that_runs(source: str) -> None:
    """T14.2"""
    made = definition("markdown").main(source)["output"].lower()
    assert not re.search(r"<(script|iframe|style|svg)|\bon\w+=|href=\"java", made)


def test_headings_are_listed_with_level_text_and_line() -> None:
    found = definition("markdown").headings("# One\n\ntext\n\nTwo\n---\n\n    # code\n")
    assert found == [{"level": 1, "text": "One", "line": 1}, {"level": 2, "text": "Two", "line": 5}]


# jq

ORDERS = [{"name": "pen", "price": 2}, {"name": "desk", "price": 200, "tags": ["big"]}]


def test_jq_answers_every_result_of_a_filter() -> None:
    """T8.4"""
    jq = definition("jq")
    assert jq.main(".[] | select(.price < 10) | .name", ORDERS) == ["pen"]
    assert jq.main("empty", ORDERS) == []
    assert jq.main('"ü", null # a comment', None) == ["ü", None]
    assert jq.query_text(".a", '{"a": 1}\n{"a": "zwei"}') == [1, "zwei"]
    assert jq.keys(ORDERS) == ["name", "price", "tags"]
    assert jq.keys({"b": 1, "a": 2}) == ["a", "b"]


def test_the_paths_that_jq_lists_are_filters_that_work() -> None:
    jq = definition("jq")
    value = {"a b": [1, {'c"d': "x"}], "e": True}
    assert [jq.main(path, value) for path in jq.paths(value)] == [[1], ["x"], [True]]


@pytest.mark.parametrize(
    "filter",
    ["$ENV", "env", "$ENV.PATH", "1), $ENV | (.", '"\\($ENV)"', "{} | $ENV", "def f: env; f", '"jq" | modulemeta'],
)
def test_no_filter_sees_the_environment_of_the_hub(filter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBAY_TEST_SECRET", "a-secret")
    found = json.dumps(definition("jq").main(filter, None))
    assert "a-secret" not in found and "/bin" not in found


@pytest.mark.parametrize(
    "filter",
    ['import "a" as a; .', 'include "a"; .', 'import "/etc/hostname" as $x; $x', ') | import "a" as $x; (', "1)", ""],
)
def test_filters_that_load_files_or_are_invalid_are_refused(filter: str) -> None:
    with pytest.raises(ValueError, match=r"jq: error|syntax error"):
        definition("jq").main(filter, None)


def test_a_filter_that_gives_too_much_is_stopped_with_advice() -> None:
    with pytest.raises(ValueError, match="more than 10000 results; narrow it"):
        definition("jq").main("range(1; infinite)", None)


def test_the_transforms_of_jq_describe_functions_that_exist() -> None:
    """VWR-19, VWR-35, T4.4"""
    tools = module(REFERENCE / "mcps" / "transforms" / "jq_tools.py").generate_tools("jq", {})
    jq = definition("jq")
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        wanted = getattr(jq, tool["function"]).__annotations__.keys() - {"return"}
        assert set(tool["inputSchema"]["required"]) == wanted
    assert [tool["name"] for tool in tools] == ["query", "query_text", "keys", "paths"]


def test_every_filter_on_the_cheat_sheet_is_one() -> None:
    transform = module(REFERENCE / "mcps" / "transforms" / "jq_resources.py")
    [sheet] = transform.generate_resources("jq", {})
    assert sheet["uri"] == "jq://cheat-sheet" and sheet["mimeType"] == "text/markdown"
    jq = definition("jq")
    for filter in transform.FILTERS:
        jq.main(f"try ({filter}) catch .", None)
        assert filter.replace("|", "\\|") in sheet["text"]


# mcp and hello


class Hub:
    """What a tool sees of the hub: contents by URI."""

    def __init__(self, contents: dict[str, Any]) -> None:
        self._contents = contents

    def read(self, uri: str) -> dict[str, Any]:
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(self._contents[uri])}


def test_the_hub_describes_itself() -> None:
    """VWR-35"""
    echo = {"name": "echo", "title": "Echo", "description": "", "kind": "shell", "endpoint": "/mcp/echo"}
    hub = Hub({"server://": [echo], "server://echo": {"tools": []}, "variable://mcps": {"echo": {"config_cid": "b"}}})
    mcp = definition("mcp")
    assert mcp.list_servers(hub) == [echo]
    assert mcp.describe_server("echo", hub) == {"tools": []}
    assert mcp.configuration(hub) == {"echo": {"config_cid": "b"}}


def test_the_example_server_greets_and_adds() -> None:
    hello = module(ROOT / "servers" / "hello.py")
    assert hello.hello() == "Hello, world!"
    assert hello.hello("Ada") == "Hello, Ada!"
    assert hello.add(1.5, 2) == 3.5
