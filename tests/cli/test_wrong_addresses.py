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
        ("jn call @git/log", "git is a server of this hub, not a profile: write git"),
        ("patchbay call Git log", "did you mean git?"),
        ("patchbay call gti", "did you mean git?"),
        ("patchbay call gti/log", "gti/log: there is no server 'gti'; did you mean git/log?"),
        ("patchbay call git", "git: expected a tool"),
        ("patchbay call git lgo", "there is no tool 'lgo'"),
        ("patchbay call ./git log", "not an address: './git'"),
        (
            "patchbay call zebra x",
            "`patchbay profile list` shows the profiles, `patchbay list` the servers of this hub",
        ),
        ("patchbay call zebra/x", "write /mcp/zebra/x for a server of this hub"),
        ("patchbay call /mcp git log", "/mcp git log: write git log for a tool of git"),
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
    assert ended.code in (exit_codes.USAGE, exit_codes.FAILED)
    assert sentence in ended.err + ended.out


def test_a_similar_profile_is_suggested_with_its_sign(served: Workspace) -> None:
    served.profile("gist", {"command": "true"})
    assert "did you mean @gist or" in served.quick("jn call gist2 x").err


def test_with_a_profile_of_the_same_name_the_server_is_meant(served: Workspace) -> None:
    """Issue 54, item 5: a name is a server, as with `show` and `logs`; a profile is `@name`."""
    served.profile("git", {"command": "no-such-program"})
    assert served.quick("jn call git log --text").out == "x\n"
    assert "no-such-program" in served.quick("jn call @git log").err


def test_a_name_without_a_server_is_a_profile(served: Workspace) -> None:
    served.profile("time", {"command": "no-such-program"})
    assert "no-such-program" in served.quick("jn call time now").err


@pytest.mark.parametrize(
    "line",
    [
        "patchbay call git log --text",
        "patchbay call git/log --text",
        "patchbay call mcp/git log --text",
        "jn call git/log --text",
        "patchbay cat git/log --text",
        "patchbay call 'git?tool=log' --text",
    ],
)
def test_a_name_of_a_server_is_its_address(served: Workspace, line: str) -> None:
    """A file of the same name changes nothing."""
    (served.work / "git").write_text("a file")
    ended = served.quick(line)
    assert (ended.code, ended.out) == (exit_codes.OK, "x\n"), ended


def test_the_other_commands_take_names_too(served: Workspace) -> None:
    assert "log" in served.quick("patchbay inspect git").out
    assert "log" in served.quick("patchbay mcp tools git").out
    assert served.quick("patchbay read jq jq://cheat-sheet --text").out.startswith("# jq filters")
    assert served.quick("patchbay prompt markdown draft topic=tea tone=friendly").code == exit_codes.OK
