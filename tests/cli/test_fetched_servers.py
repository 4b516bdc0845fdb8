"""Real servers, fetched from PyPI and npm, used as people use them. Needs the network for what is not cached.

Neither `uv` nor `npx` is put on the PATH here: the program finds them itself, beside its Python and in the Node wheel.
BioMCP is inspected in test_document_commands.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace, kept_programs

pytestmark = pytest.mark.process

TIME = "mcp+uvx://mcp-server-time/mcp-server-time"
EVERYTHING = "mcp+npx://@modelcontextprotocol/server-everything"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of all commands, so that the packages of a program are put into its own folder once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def workspace(tmp_path: Path, data: Path) -> Workspace:
    """A folder and a home of this test."""
    return Workspace(tmp_path, {"PATCHBAY_DATA": str(data)})


def test_the_time_server_is_inspected(workspace: Workspace) -> None:
    """JN-6, JN-23, JN-32: a Python package, with `patchbay`, text and JSON."""
    ended = workspace.run(f'patchbay inspect "{TIME}"')
    assert ended.code == exit_codes.OK, ended.err
    assert "\nTools (2):\n  get_current_time: " in ended.out
    assert "      timezone (required): IANA timezone name" in ended.out
    found = json.loads(workspace.quick(f'patchbay inspect "{TIME}" --format json').out)
    assert [tool["name"] for tool in found["tools"]] == ["get_current_time", "convert_time"]


def test_a_package_that_was_fetched_before_is_started_without_the_network(workspace: Workspace) -> None:
    """Issue 12 part 18: the index is not asked at each start."""
    call = f'jn call "{TIME}" get_current_time timezone=UTC'
    assert workspace.run(call).code == exit_codes.OK
    nowhere = "http://127.0.0.1:9"
    workspace.environment |= dict.fromkeys(
        ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY", "http_proxy"), nowhere
    )
    workspace.environment |= {"NO_PROXY": "", "no_proxy": ""}
    ended = workspace.run(call)
    assert (ended.code, ended.err) == (exit_codes.OK, "")


def test_the_requirements_of_a_server_can_be_narrowed(workspace: Workspace) -> None:
    """Issue 12 part 17: `launch.with` pins what a server needs, here the SDK before its second version."""
    ended = workspace.run('jn inspect "mcp+uvx://mcp-server-time==2025.9.25/mcp-server-time?launch.with=mcp<2"')
    assert ended.code == exit_codes.OK, ended.err
    assert "\nRevision: 2025-" in ended.out


def test_context7_is_inspected(workspace: Workspace) -> None:
    """JN-6, JN-24, JN-32: a scoped Node package of a version."""
    ended = workspace.quick('jn inspect "mcp+npx://@upstash/context7-mcp@latest"')
    assert ended.code == exit_codes.OK, ended.err
    assert "\n  resolve-library-id: " in ended.out


def test_the_everything_server_is_called_read_and_prompted(workspace: Workspace) -> None:
    """JN-2 to JN-4, JN-13, JN-71: tools, resources, prompts, over a profile made of the address.

    The commands share one server that is left running.
    """
    workspace.environment["PATCHBAY_KEEP"] = "1"
    with kept_programs(workspace):
        assert workspace.quick(f'jn profile new mcp everything "{EVERYTHING}"').code == exit_codes.OK
        sum_of = workspace.quick("jn call @everything get-sum a=2 b=40")
        assert (sum_of.code, sum_of.err) == (exit_codes.OK, "")
        assert "42" in sum_of.records[0]["text"]
        image = workspace.quick("jn cat @everything/get-tiny-image").records
        assert any(row.get("mimeType") == "image/png" and row["blob"] for row in image)
        listed = workspace.quick('jn head -n 1 "@everything?list=resources"').records
        assert "text" in workspace.quick(f'jn read @everything "{listed[0]["uri"]}"').records[0]
        prompted = workspace.quick("jn prompt @everything args-prompt city=Berlin state=Berlin").records
        assert (prompted[0]["type"], "Berlin" in prompted[0]["text"]) == ("prompt_message", True)
        assert workspace.quick("jn profile validate @everything").code == exit_codes.OK


def test_the_everything_server_asks_and_is_answered(workspace: Workspace) -> None:
    """JN-71: elicitation and sampling by flags, and refused without."""
    asking = f"jn call {EVERYTHING} trigger-elicitation-request"
    assert "- Name: Ada" in workspace.quick(f"{asking} --answer name=Ada").out
    assert "declined" in workspace.quick(f"{asking} --decline").out
    sampling = f"jn call {EVERYTHING} trigger-sampling-request prompt=Where?"
    assert "Paris" in workspace.quick(f"{sampling} --sample Paris").out
    refused = workspace.quick(sampling)
    assert (refused.code, "--sample TEXT" in refused.err) == (exit_codes.FAILED, True)


def test_progress_of_a_long_operation_is_shown_on_a_terminal(workspace: Workspace) -> None:
    ended = workspace.on_terminal(f"jn call {EVERYTHING} trigger-long-running-operation duration=2 steps=4")
    assert ended.code == exit_codes.OK
    assert any(f"{step}/4" in ended.out for step in (1, 2, 3))


def test_pipelines_run_over_fetched_servers(workspace: Workspace) -> None:
    """JN-38, JN-12: the tools of one server become calls of another, the results a file; head ends its producers."""
    zones = '{"timezone": "Europe/Berlin"}\n{"timezone": "Asia/Tokyo"}\n'
    line = (
        f'jn put "{TIME}?tool=get_current_time" '
        "| jn filter '{message: (.text | fromjson | .timezone)}' "
        f'| jn put "{EVERYTHING}?tool=echo" | jn filter .text'
    )
    ended = workspace.run(line, zones)
    echoed = [json.loads(line) for line in ended.out.splitlines()]
    assert (ended.code, echoed) == (exit_codes.OK, ["Echo: Europe/Berlin", "Echo: Asia/Tokyo"])
    line = f'jn cat "{EVERYTHING}?list=tools" | jn filter "select(.name | startswith(\\"get-\\")) | {{name}}"'
    assert workspace.run(f"{line} | jn put tools.json").code == exit_codes.OK
    assert {"name": "get-sum"} in json.loads((workspace.work / "tools.json").read_text())
    endless = (
        f"yes '{{\"message\": \"on\"}}' | jn put '{EVERYTHING}?tool=echo' | jn head 3; echo ${{PIPESTATUS[*]}} >&2"
    )
    ended = workspace.run(endless)
    assert (len(ended.records), ended.err.split()) == (3, ["141", "141", "0"])
