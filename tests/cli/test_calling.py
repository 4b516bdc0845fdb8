"""The commands of one server: how often an address is parsed and its profile is loaded on the way to the server."""

from __future__ import annotations

import pytest

from patchbay import exit_codes
from patchbay.client.addresses import address
from patchbay.client.addresses.query import check_text
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import Profiles
from tests.cli.workspace import SEARCH, Workspace, launch


@pytest.mark.parametrize(
    ("line", "stdin", "parsed"),
    [
        ("jn call @bio search gene=BRAF", "", "@bio?tool=search&arg.gene=BRAF"),
        ('jn call "@bio/search" --each', '{"gene": "BRAF"}\n{"gene": "TP53"}\n', "@bio/search"),
        ('jn cat "@bio/search?gene=BRAF"', "", "@bio/search?gene=BRAF"),
        ("jn mcp explore @bio", "", "@bio"),
        ("jn inspect @bio", "", "@bio"),
    ],
)
def test_a_command_parses_its_address_once_and_loads_its_profile_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, line: str, stdin: str, parsed: str
) -> None:
    """Issue 13 part 3: the parsed address travels with its profile; contract, timeout and output format read that."""
    texts: list[str] = []
    names: list[str] = []
    load = Profiles.load

    def count_parse(text: str, place: str) -> str:
        texts.append(text)
        return check_text(text, place)

    def count_load(profiles: Profiles, name: str) -> Profile:
        names.append(name)
        return load(profiles, name)

    search = {"output_format": "text/plain", "inputSchema": SEARCH["inputSchema"]}
    workspace.profile("bio", {**launch(workspace.serve(SEARCH)), "timeout": 60}, search=search)
    monkeypatch.setattr(address, "check_text", count_parse)
    monkeypatch.setattr(Profiles, "load", count_load)
    ended = workspace.quick(line, stdin)
    assert ended.code == exit_codes.OK, ended.err
    assert (texts, names) == ([parsed], ["bio"])
