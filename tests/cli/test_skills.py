"""`mcp skills`, `mcp skill` and `inspect`: the skills of a server on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace

pytestmark = pytest.mark.process

SKILL_TEXT = "---\nname: weave\ndescription: How to weave\n---\nRead docs/more.txt.\n"
CRAFTS = {
    "kind": "static",
    "resources": {"note": {"uri": "s://note", "name": "note", "text": "hi"}},
    "skills": {"weave": {"SKILL.md": {"text": SKILL_TEXT}, "docs/more.txt": {"text": "more\n"}}},
}


@pytest.fixture(scope="module")
def crafts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("skills")
    servers = folder / "servers"
    servers.mkdir()
    (servers / "crafts.json").write_text(json.dumps(CRAFTS))
    yield Workspace(folder, {"PATCHBAY_SERVERS": str(servers)})


def test_skills_are_listed_without_their_files(crafts: Workspace) -> None:
    """SEP-2640: the entry of a skill has its frontmatter, and the size and digest of each file."""
    listed = crafts.quick("patchbay mcp skills /mcp/crafts")
    assert (listed.code, [record["type"] for record in listed.records]) == (exit_codes.OK, ["skill"]), listed.err
    assert listed.records[0]["frontmatter"] == {"name": "weave", "description": "How to weave"}
    assert [file["uri"] for file in listed.records[0]["resources"]] == [
        "skill://weave/SKILL.md",
        "skill://weave/docs/more.txt",
    ]
    assert crafts.quick("jn cat '/mcp/crafts?list=skills'").records == listed.records


def test_inspect_describes_the_skills_of_a_server(crafts: Workspace) -> None:
    shown = crafts.quick("patchbay inspect /mcp/crafts").out
    assert "Skills (1):\n  weave: How to weave\n    URI: skill://weave/SKILL.md\n    Files: 2\n" in shown


def test_a_skill_is_printed_and_saved(crafts: Workspace) -> None:
    printed = crafts.quick("patchbay mcp skill /mcp/crafts weave")
    assert (printed.code, printed.out) == (exit_codes.OK, SKILL_TEXT)
    saved = crafts.quick("patchbay mcp skill /mcp/crafts weave --save skills")
    folder = crafts.work / "skills" / "weave"
    assert (saved.code, saved.out) == (exit_codes.OK, "") and str(folder) in saved.err
    assert (folder / "SKILL.md").read_text() == SKILL_TEXT and (folder / "docs" / "more.txt").read_text() == "more\n"
    again = crafts.quick("patchbay mcp skill /mcp/crafts weave --save skills")
    assert again.code == exit_codes.USAGE and "exists: remove it" in again.err


def test_an_unknown_skill_and_a_server_without_skills_get_a_clear_error(crafts: Workspace) -> None:
    assert "did you mean 'weave'?" in crafts.quick("patchbay mcp skill /mcp/crafts weav").err
    (Path(crafts.environment["PATCHBAY_SERVERS"]) / "plain.py").write_text("def f() -> int:\n    return 1\n")
    assert crafts.quick("patchbay mcp skills /mcp/plain").records == []
    assert "there is no skill 'x', and no other skill" in crafts.quick("patchbay mcp skill /mcp/plain x").err
