"""A server of the hub that is named in a wrong way: the error says how to name it."""

from __future__ import annotations

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace


@pytest.fixture
def served(workspace: Workspace) -> Workspace:
    """A workspace whose servers folder has the server `git` with the tool `log`."""
    folder = workspace.folder / "servers"
    folder.mkdir()
    (folder / "git.py").write_text('def log() -> str:\n    """Log."""\n    return "x"\n')
    workspace.environment["PATCHBAY_SERVERS"] = str(folder)
    return workspace


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("patchbay call git log", "git is a server of this hub, not a profile: write /mcp/git"),
        ("patchbay call git", "git is a server of this hub, not a profile: write /mcp/git"),
        ("jn call @git/log", "git is a server of this hub, not a profile: write /mcp/git"),
        ("patchbay read git file:///a", "git is a server of this hub, not a profile: write /mcp/git"),
        ("patchbay inspect git", "git is a server of this hub, not a profile: write /mcp/git"),
        ("patchbay mcp tools git", "git is a server of this hub, not a profile: write /mcp/git"),
        ("patchbay call Git log", "did you mean /mcp/git?"),
        ("patchbay call gti", "did you mean /mcp/git?"),
        (
            "patchbay call zebra x",
            "`patchbay profile list` shows the profiles, `patchbay list` the servers of this hub",
        ),
        ("patchbay call git/log", "write /mcp/git/log for a server of this hub"),
        ("patchbay call mcp/git log", "not an address: 'mcp/git'; write /mcp/git, for a server of this hub"),
        ("patchbay call /mcp git log", "/mcp git log: write /mcp/git log for a tool of git"),
        ("patchbay show /mcp/git", "expected the name of a server, not its address /mcp/git: write git"),
        ("patchbay show git/log", "expected the name of a server, not its address git/log: write git"),
        ("patchbay remove @git --yes", "expected the name of a server, not its address @git: write git"),
        ("patchbay disable http://127.0.0.1:8000/mcp/git", "write git"),
        ("patchbay show zebra/git", "there is no server 'zebra/git'"),
    ],
)
def test_the_error_says_how_to_name_the_server(served: Workspace, line: str, sentence: str) -> None:
    """Issue 47 item 13: `call git log` said that a profile was not found, while `show git` worked."""
    ended = served.quick(line)
    assert ended.code == exit_codes.USAGE
    assert sentence in ended.err


def test_a_similar_profile_is_suggested_with_its_sign(served: Workspace) -> None:
    served.profile("gist", {"command": "true"})
    assert "did you mean @gist or" in served.quick("jn call gist2 x").err


def test_with_a_profile_of_the_same_name_the_profile_is_meant(served: Workspace) -> None:
    served.profile("git", {"command": "no-such-program"})
    assert "no-such-program" in served.quick("jn call git log").err
