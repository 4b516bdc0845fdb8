"""Every tool of every shipped definition of every released store works in this version, with documents present."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.hubs import Hub
from tests.upgrade.answering import request
from tests.upgrade.calls import CALLS, Call
from tests.upgrade.released import RELEASED, definition, named, served, unpack, upgraded

pytestmark = pytest.mark.filterwarnings("default:.* has moved to:DeprecationWarning")

CLAUDE = ROOT / "tests" / "content" / "claude_program.py"
SERVERS = [(commit, server) for commit in RELEASED for server in CALLS]
PROMPTED = {"uri": "spec://hub/a.md", "resourceUri": "test://static-text"}
WHOLE = json.dumps({"isolation": "inline", "auto_discover": True})


@dataclass
class Released:
    """A hub of this version on a released store, the versions that the store served, and the values that calls kept."""

    hub: Hub
    pins: Mapping[str, str]
    values: dict[str, str]

    def run(self, endpoint: str, call: Call) -> None:
        """Call a tool and check how it ended."""
        result = request(
            self.hub, endpoint, "tools/call", {"name": call.tool, "arguments": self.filled(call.arguments)}
        )
        failed = bool(result.get("isError")) or "code" in result
        assert failed == bool(call.fails), (call, result)
        assert call.fails in json.dumps(result), (call, result)
        for name, key in call.keep.items():
            value: Any = result["structuredContent"]
            for part in key.split("."):
                value = value[part]
            self.values[name] = value

    def filled(self, arguments: Mapping[str, Any]) -> Any:
        """Arguments with the kept values in the place of their names."""
        text = json.dumps(arguments)
        for name, value in self.values.items():
            text = text.replace(f'"{{{name}}}"', json.dumps(value))
        return json.loads(text)

    def tools(self, endpoint: str) -> set[str]:
        """The names of the tools that a server lists."""
        listed = request(self.hub, endpoint, "tools/list", {})["tools"]
        return {tool["name"] for tool in listed}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Released]]:
    """A hub on each released store, with a stand-in for `claude`, and with the old `jane` as a file without a list."""
    folder = tmp_path_factory.mktemp("released")
    program = folder / "claude"
    program.write_text(f"#!{sys.executable}\n{CLAUDE.read_text()}")
    program.chmod(0o755)
    found: dict[str, Released] = {}
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("CLAUDE_COMMAND", str(program))
        for commit in RELEASED:
            database = unpack(commit, folder / f"packed-{commit}")
            files = {"whole.py": definition(database, "jane"), "whole.mcp.json": WHOLE}
            found[commit] = Released(
                upgraded(commit, folder / commit, files), served(database), {"folder": str(folder)}
            )
        yield found
        for one in found.values():
            one.hub.close()


@pytest.mark.parametrize(("commit", "server"), SERVERS)
def test_every_tool_of_every_released_definition_still_works(
    released: Mapping[str, Released], commit: str, server: str
) -> None:
    """34.3."""
    one = released[commit]
    endpoint = f"{server}@{one.pins[server]}"
    called = set()
    for call in CALLS[server]:
        if call.tool in one.tools(endpoint):
            one.run(endpoint, call)
            called.add(call.tool)
    assert called == one.tools(endpoint)


@pytest.mark.parametrize("commit", RELEASED)
def test_every_server_that_a_release_served_has_calls(released: Mapping[str, Released], commit: str) -> None:
    """34.3."""
    assert set(released[commit].pins) - set(CALLS) == set()


@pytest.mark.parametrize("commit", RELEASED)
def test_every_function_of_the_released_jane_still_works(released: Mapping[str, Released], commit: str) -> None:
    """34.3: `jane` lists some of its functions; served without a list, its definition offers all of them."""
    one = released[commit]
    assert one.tools("whole") == {call.tool for call in CALLS["jane"]}
    for call in CALLS["jane"]:
        one.run("whole", call)


@pytest.mark.parametrize(("commit", "server"), SERVERS)
def test_every_resource_and_prompt_of_every_released_definition_still_works(
    released: Mapping[str, Released], commit: str, server: str
) -> None:
    """34.3."""
    one = released[commit]
    endpoint = f"{server}@{one.pins[server]}"
    for call in CALLS[server][:2] if server in ("echo", "jane") else ():
        request(one.hub, endpoint, "tools/call", {"name": call.tool, "arguments": call.arguments})
    for resource in request(one.hub, endpoint, "resources/list", {})["resources"]:
        assert "contents" in request(one.hub, endpoint, "resources/read", {"uri": resource["uri"]}), resource
    for prompt in request(one.hub, endpoint, "prompts/list", {})["prompts"]:
        given = {each["name"]: PROMPTED.get(each["name"], "blue") for each in prompt.get("arguments", ())}
        answer = request(one.hub, endpoint, "prompts/get", {"name": prompt["name"], "arguments": given})
        assert "messages" in answer, (prompt, answer)


@pytest.mark.parametrize("commit", RELEASED)
def test_the_released_jane_still_completes_arguments(released: Mapping[str, Released], commit: str) -> None:
    """34.3."""
    one = released[commit]
    endpoint = f"jane@{one.pins['jane']}"
    request(one.hub, endpoint, "tools/call", {"name": "create_document", "arguments": CALLS["jane"][1].arguments})
    template = {"type": "ref/resource", "uri": "spec://{project}/{path}"}
    asked: tuple[tuple[Any, str, Any, str], ...] = (
        ({"type": "ref/prompt", "name": "summarize"}, "uri", {}, "spec://hub/a.md"),
        (template, "project", {}, "hub"),
        (template, "path", {"project": "hub"}, "a.md"),
    )
    for ref, name, known, wanted in asked:
        params = {"ref": ref, "argument": {"name": name, "value": ""}, "context": {"arguments": known}}
        assert wanted in request(one.hub, endpoint, "completion/complete", params)["completion"]["values"]


@pytest.mark.parametrize("commit", RELEASED)
def test_jane_searches_after_a_rollback_to_the_released_version(tmp_path: Path, commit: str) -> None:
    """34.3: a rollback serves the old definition at the name that clients call."""
    before = unpack(commit, tmp_path / "packed")
    hub = upgraded(commit, tmp_path / "hub").log_in()
    page = hub.client.get(f"/history/rollback?root={named(before, 'root')}").text
    fields = dict(re.findall(r'name="(csrf|root|seen)" value="([^"]*)"', page))
    assert hub.client.post("/history/rollback", data=fields).status_code in (303, 400)  # 400: it is the present root
    assert hub.catalogue.store.names.get("servers/jane") == named(before, "servers/jane")
    one = Released(hub.as_operator(), {}, {})
    for call in CALLS["jane"]:
        if call.tool in one.tools("jane"):
            one.run("jane", call)
    hub.close()
