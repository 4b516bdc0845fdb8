"""`inspect`: what a server offers, as text for people and as JSON for programs."""

from __future__ import annotations

import json

import pytest

from patchbay import exit_codes
from tests.cli.workspace import COUNT, SEARCH, Workspace, launch

pytestmark = pytest.mark.process

TEXT = """\
Server: changing
Transport: stdio
Version: 1
Revision: 2025-11-25
Digest of the tools: bafkreigjtajfkuf4hgjzq53ezeptnuydaidaegasd62umyg3wkn25pkvny
Capabilities: prompts, resources, tools (listChanged)

Tools (2):
  search: Search biomedical resources
    search(gene: string, disease?: string)
    Parameters:
      gene (required): Gene symbol (e.g., BRAF, TP53)
      disease: Disease or condition name
  count: No description
    count(n?: integer)
    Parameters:
      n:

Resources (1):
  NCT1: A trial
    URI: resource://trials/NCT1

Resource templates (1):
  trial: No description
    URI template: resource://trials/{id}

Prompts (1):
  summary: Sum up
    Arguments:
      style (required):
"""


def test_the_text_is_that_of_the_document_and_what_the_protocol_has_beside_it(workspace: Workspace) -> None:
    """JN-32, JN-34: text is the default, no profile is needed; the same for a profile and for `patchbay`."""
    address = workspace.serve(SEARCH, COUNT)
    workspace.profile("changing", launch(address))
    for line in (f"jn inspect '{address}'", "jn inspect @changing --format text", f"patchbay inspect '{address}'"):
        ended = workspace.quick(line)
        assert (ended.code, ended.out, ended.err) == (exit_codes.OK, TEXT, "")


def test_json_has_the_fields_of_the_document(workspace: Workspace) -> None:
    """JN-33: server, transport, tools, resources; descriptors as the server sent them."""
    found = json.loads(workspace.quick(f"jn inspect '{workspace.serve(SEARCH)}' --format json").out)
    assert (found["server"], found["transport"], found["tools"]) == ("changing", "stdio", [SEARCH])
    assert set(found["resources"][0]) == {"uri", "name", "description", "mimeType"}
    assert found["protocolVersion"] == "2025-11-25"
    assert found["capabilities"]["prompts"] == {}


def test_a_terminal_sees_colours_and_nothing_that_steers_it(workspace: Workspace) -> None:
    """JN-34; THREATS: what a server says cannot move the cursor or hide text, on either stream."""
    bad = {**SEARCH, "description": "Search\x1b[2J\x07 \u202eerom"}
    address = workspace.serve(bad)
    shown = workspace.on_terminal(f"jn inspect '{address}'").out
    assert "\x1b[36msearch\x1b[0m" in shown
    assert "\x1b[33m(required)\x1b[0m" in shown
    for text in (shown, workspace.quick(f"jn inspect '{address}'").out):
        assert "Search\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER} " in text
        assert "\u202e" not in text
    assert "\u202e" not in workspace.quick(f"jn cat '{address}?list=tools'").out


def test_a_server_of_this_hub_is_inspected_in_this_process(workspace: Workspace) -> None:
    """Local names: the hub that the settings describe, without a port."""
    found = json.loads(workspace.quick("patchbay inspect /mcp/echo --format json").out)
    assert (found["transport"], [tool["name"] for tool in found["tools"]]) == ("in-process", ["echo"])
    assert workspace.quick("jn call /mcp/echo echo message=hi").code == exit_codes.OK
    assert workspace.quick("jn inspect /mcp/no-such").code == exit_codes.USAGE


@pytest.mark.parametrize("place", ["results.json", "gopher://example.org", "mcp+docker://image", "@no/such/thing"])
def test_an_address_that_cannot_be_inspected_is_an_error(workspace: Workspace, place: str) -> None:
    """JN-35, JN-27: one sentence on standard error, exit code 2."""
    ended = workspace.quick(f"jn inspect {place}")
    assert (ended.code, ended.out) == (exit_codes.USAGE, "")
    assert ended.err.startswith("jn: ")
