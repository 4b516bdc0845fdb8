"""What a mount's program is proposed to be allowed, by what its command line and its variables name."""

from __future__ import annotations

import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.kinds.program_proposals import Proposal, propose, with_proposal

FILESYSTEM = ("npx", "-y", "@modelcontextprotocol/server-filesystem")
SQLITE = ("uv", "run", "--with", "mcp-server-sqlite", "--with", "mcp<2", "mcp-server-sqlite")
MEMORY = ("npx", "-y", "@modelcontextprotocol/server-memory")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("notes", "work", ".ssh", ".config/gh", "own", ".local/bin"):
        (tmp_path / "home" / name).mkdir(parents=True)
    for name in ("data", "servers"):
        (tmp_path / "hub" / name).mkdir(parents=True)
    return tmp_path / "home"


def proposed(home: Path, *words: str, cwd: str | None = None, folder: Path | None = None, **env: str) -> Proposal:
    hub = [home.parent / "hub" / name for name in ("data", "servers")]
    target = Stdio(words[0], words[1:], env, cwd)
    return propose(target, {"HOME": str(home), "NOTES": str(home / "notes")}, hub, folder or home)


@pytest.mark.parametrize(
    ("words", "env", "fields"),
    [
        ((*FILESYSTEM, "{home}/notes"), {}, {"writes": ["{home}/notes"]}),
        ((*FILESYSTEM, "~/notes", "{home}/work"), {}, {"writes": ["~/notes", "{home}/work"]}),
        ((*FILESYSTEM, "${NOTES}"), {}, {"writes": ["{home}/notes"]}),
        (("uvx", "mcp-server-git", "--repository", "work/"), {}, {"writes": ["{home}/work"]}),
        (("uvx", "mcp-server-git", "--repository={home}/work"), {}, {"writes": ["{home}/work"]}),
        (("uvx", "mcp-server-sqlite", "--db-path", "~/own/new.db"), {}, {"writes": ["~/own"]}),
        (("npx", "-y", "any", "sqlite:///{home}/own/a.db"), {}, {"writes": ["{home}/own"]}),
        (("uvx", "arxiv-mcp-server", "--storage-path", "{home}/own/papers"), {}, {"writes": ["{home}/own"]}),
        ((*SQLITE, "--db-path", "{home}/own/a.db"), {}, {"writes": ["{home}/own"]}),
        (("uvx", "mcp-alchemy"), {"DB_URL": "sqlite:///{home}/own/b.db"}, {"writes": ["{home}/own"]}),
        (("uvx", "excel-mcp-server", "stdio"), {"EXCEL_FILES_PATH": "{home}/own"}, {"writes": ["{home}/own"]}),
        (("uvx", "excel-mcp-server", "stdio"), {}, {}),
        (MEMORY, {"MEMORY_FILE_PATH": "{home}/own/memory.json"}, {"writes": ["{home}/own"]}),
        (("uv", "--directory", "{home}/work", "run", "a.py"), {}, {"writes": ["{home}/work"]}),
        (("npx", "-y", "@playwright/mcp@latest"), {}, {"needs": "browser"}),
        (("uvx", "mcp-server-time", "--local-timezone=Europe/Berlin"), {}, {}),
        (("python", "{home}/jobs/server.py"), {}, {}),
        (("npx", "-y", "any", "--config", "{home}/notes/settings.json", "--prefix", "/api"), {}, {}),
        (MEMORY, {"MEMORY_FILE_PATH": "memory.json"}, {}),
    ],
)  # fmt: skip
def test_what_is_named_is_proposed_and_nothing_else(
    home: Path, words: tuple[str, ...], env: dict[str, str], fields: dict[str, Any]
) -> None:
    for name in ("work/server.py", "notes/settings.json"):
        (home / name).touch()

    def fill(value: Any) -> Any:
        return [fill(one) for one in value] if isinstance(value, list) else value.replace("{home}", str(home))

    found = proposed(home, *map(fill, words), **{name: fill(value) for name, value in env.items()})
    assert dict(found.fields) == {name: fill(value) for name, value in fields.items()}
    assert len(found.reasons) == sum(len(one) if isinstance(one, list) else 1 for one in found.fields.values())


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/", "the files of the hub are in it"),
        ("~", "it holds the whole home folder"),
        ("~/.ssh", "it is a private place"),
        ("~/.config/gh", "it is a private place"),
        ("/etc/ssl", "it is a folder of the system"),
        ("{hub}/data", "it belongs to the hub itself"),
        ("{hub}/servers", "it belongs to the hub itself"),
        ("{hub}", "the files of the hub are in it"),
        ("~/.local/bin", "programs that you or the hub start come from it"),
        ("~/own/link", "it is a private place"),
        ("~/own/../.ssh", "it is a private place"),
        ("~/own/agent.socket", "a socket may give power over the whole machine"),
    ],
)
def test_a_place_that_opens_too_much_is_not_proposed_and_the_reason_is_said(
    home: Path, place: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "own" / "link").symlink_to(home / ".ssh")
    # The path of a socket is short.
    monkeypatch.chdir(home / "own")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind("agent.socket")
        found = proposed(home, *FILESYSTEM, place.replace("{hub}", str(home.parent / "hub")))
    assert found.fields == {} and found.optional == ()
    [sentence] = found.refused
    assert reason in sentence


def test_a_program_without_a_sign_of_writing_reads_what_is_named(home: Path) -> None:
    """Everything is readable already; the line that lets it change the folder is the choice of the user."""
    found = proposed(home, "npx", "-y", "weather-tiles", "~/notes")
    assert found.fields == {}
    [(line, reason)] = found.optional
    assert line == {"writes": ["~/notes"]} and "it is read" in reason


def test_a_working_folder_is_read_unless_the_program_writes(home: Path) -> None:
    assert proposed(home, "node", "server.js", cwd="notes").optional[0][0] == {"writes": [str(home / "notes")]}
    assert proposed(home, *FILESYSTEM, cwd=str(home / "notes")).fields == {"writes": [str(home / "notes")]}


def test_a_file_in_the_tmp_of_others_that_a_variable_names_is_opened_for_reading(home: Path) -> None:
    """A command line shows its places in /tmp by itself; a variable does not."""
    with TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "ca.pem").touch()
        found = proposed(home, "npx", "-y", "any", CA_PATH=f"{folder}/ca.pem")
        assert found.fields == {"reads": [f"{folder}/ca.pem"]}
        assert proposed(home, "npx", "-y", "any", "--ca", f"{folder}/ca.pem").fields == {}


def test_a_container_engine_is_not_opened(home: Path) -> None:
    found = proposed(home, "docker", "run", "-i", "--rm", "mcp/server")
    assert found.fields == {}
    assert "all rights of the machine" in found.refused[0]


def test_only_values_of_the_user_count_where_the_rest_is_that_of_a_registry(home: Path) -> None:
    env = {"A_FILE": str(home / "work" / "a"), "B_DIR": str(home)}
    target = Stdio("npx", ("-y", "server-filesystem", str(home / "notes")), env)
    found = propose(target, {"HOME": str(home)}, (), home, frozenset(("A_FILE",)))
    assert dict(found.fields) == {"writes": [f"{home}/work"]} and found.refused == ()


def test_lines_that_a_definition_has_stay(home: Path) -> None:
    found = proposed(home, *FILESYSTEM, "~/notes")
    merged = with_proposal({"kind": "upstream", "writes": ["~/work"], "needs": "browser"}, found)
    assert merged == {"kind": "upstream", "writes": ["~/work", "~/notes"], "needs": "browser"}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"writes": ["~/notes"]}, {"writes": ["{home}/work"]}),
        ({"writes": ["{home}/notes", "{home}/work"]}, {}),
        ({"writes": ["~"]}, {}),
        ({"reads": ["~"]}, {"writes": ["~/notes", "{home}/work"]}),
    ],
)
def test_what_a_line_of_the_mount_opens_is_not_proposed_again(
    home: Path, given: dict[str, list[str]], left: dict[str, list[str]]
) -> None:
    def fill(fields: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: [one.replace("{home}", str(home)) for one in places] for name, places in fields.items()}

    target = Stdio(FILESYSTEM[0], (*FILESYSTEM[1:], "~/notes", str(home / "work")))
    found = propose(target, {"HOME": str(home)}, (), home, given=fill(given))
    assert dict(found.fields) == fill(left) and len(found.reasons) == len(found.fields.get("writes", ()))


def test_a_browser_that_the_mount_has_is_not_proposed_again(home: Path) -> None:
    target = Stdio("npx", ("-y", "@playwright/mcp@latest"))
    assert propose(target, {"HOME": str(home)}, (), home, given={"needs": "browser"}) == Proposal({})


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("~/papers", "~/papers is not there: if it is a folder, make it"),
        ("~/here.db", "Put ~/here.db into a folder of its own"),
    ],
)
def test_where_the_folder_of_what_is_named_is_not_opened_the_user_reads_what_to_do(
    home: Path, place: str, advice: str
) -> None:
    (home / "here.db").touch()
    found = proposed(home, "uvx", "mcp-server-sqlite", "--db-path", place)
    assert found.fields == {}
    [sentence] = found.refused
    assert "it holds the whole home folder" in sentence and advice in sentence


@pytest.mark.parametrize(
    ("words", "has_hint"),
    [
        (("uvx", "excel-mcp-server", "stdio"), True),
        (("npx", "-y", "@cyanheads/git-mcp-server"), True),
        (("uvx", "excel-mcp-server", "--files", "~/notes"), False),
        (("uvx", "mcp-server-time"), False),
        (MEMORY, False),
    ],
)
def test_a_program_whose_calls_name_files_has_a_hint_until_a_folder_is_named(
    home: Path, words: tuple[str, ...], has_hint: bool
) -> None:
    assert bool(proposed(home, *words).hint) is has_hint


@pytest.mark.parametrize("text", ["\0", "/" + "a" * 5000, "~\0", "/\ud800", "https://x.example/a/b", "@scope/name"])
def test_a_text_that_is_no_path_proposes_nothing(home: Path, text: str) -> None:
    found = proposed(home, "npx", "-y", "server-filesystem", text)
    assert found.fields == {} and found.refused == ()
