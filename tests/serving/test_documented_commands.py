"""Every command that a document shows is run as printed, or is named here with the reason why not.

The pages of the client have tests of their own. What is here: README.md, the tutorial, the recipes, docs/servers.md and
docs/library.md, in order, against a hub as users start it; port 8000 stands for the hub's own. Issue 12 part 17, and
issue 17 part 8.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.client.peers import fetched, uv_cache
from tests.interaction.programs import Hub, running_hub, status_of
from tests.waiting import until, until_every_worker

pytestmark = pytest.mark.process

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
HUB = "http://127.0.0.1:8000"
RUN_ELSEWHERE = {
    "docs/client.md": "tests/cli/test_client_docs.py runs all of it",
    "docs/cluster.md": "tests/serving/test_cluster_page.py runs all of it",
    "docs/commands.md": "tests/cli/servers/test_commands_page.py runs all of it",
    "docs/discovery.md": "tests/cli/test_registry.py runs the same commands with a registry of its own",
    "docs/exploring.md": "tests/client/test_exploring_page.py runs all of it",
    "docs/toolsets.md": "tests/cli/servers/test_toolsets.py runs the same commands with servers of its own",
}
NOT_RUN = {
    **dict.fromkeys(
        (
            "python3 -m pip wheel --quiet --no-deps --wheel-dir dist .",
            "python3 -m venv ~/patchbay-env",
            "~/patchbay-env/bin/pip install --quiet dist/patchbay_hub-*.whl",
            "~/patchbay-env/bin/patchbay --version",
        ),
        "tests/packaging/ builds the wheel, installs it and runs what it has",
    ),
    "scripts/run": "starts a hub in this checkout; the fixture starts one in a folder of its own",
    "scripts/run --enable bash,everything": "the same; tests of the setting --enable run it",
    "claude mcp add jane --env JANE_DIR=$HOME/notes -- patchbay stdio jane": "needs the application Claude Code",
    "claude mcp add --transport http prices http://127.0.0.1:8000/mcp/prices": "needs the application Claude Code",
    "claude mcp add --transport http notes http://127.0.0.1:8000/mcp/notes": "needs the application Claude Code",
}
"""Commands that are not run here, and why."""

PAGES = ("README.md", "docs/tutorial.md", "docs/recipes.md", "docs/servers.md", "docs/library.md", "docs/scripts.md")
SERVER_FILE = re.compile(r"> servers/([\w-]+)\.(?:py|sh|json) <<")


def commands(name: str) -> list[tuple[str, str]]:
    """The commands of a document, each with what it prints: what follows a `$`, up to the end of a here-document."""
    text = (ROOT / name).read_text("utf-8")
    found = []
    for block in CONSOLE.findall(text):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = piece.splitlines()
            size = 1
            if lines[0].endswith(("<<END", "<<'END'")):
                size = lines.index("END") + 1
            while lines[size - 1].endswith("\\"):
                size += 1
            found.append(("\n".join(lines[:size]), "\n".join(lines[size:])))
    return found + [(line, "") for block in SHELL.findall(text) for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


def run(line: str, folder: Path, hub: Hub) -> str:
    """What a command prints in a folder that looks like a checkout, where commands use the folders of this hub."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("JN_", "PATCHBAY_"))}
    environment = own | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "UV_CACHE_DIR": uv_cache(),
        "PATCHBAY_SERVERS": str(hub.servers),
        "PATCHBAY_DATA": str(hub.servers.parent / "data"),
        **fetched("mcp-server-time"),
    }
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{line}\n{done.stderr or done.stdout}"
    return done.stdout


def is_served(hub: Hub, name: str) -> bool:
    return status_of(f"{hub.url}/servers/{name}") == 200


def test_the_commands_of_the_documents_do_what_they_say(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "servers").symlink_to(hub.servers)
    (tmp_path / "reference_templates").symlink_to(ROOT / "reference_templates")
    ran = []
    for page in PAGES:
        for line, shown in commands(page):
            if line in NOT_RUN:
                continue
            said = run(line.replace(HUB, hub.url), tmp_path, hub)
            for name in SERVER_FILE.findall(line):
                until_every_worker(partial(is_served, hub, name), f"the server {name}")
            assert said.strip() == shown.strip() if shown else True, f"{line} printed:\n{said}"
            ran.append(line.split()[0])
    assert {"cat", "curl", "patchbay", "cp", "jn"} <= set(ran)
    for name in ("bash", "jane"):
        until(partial(is_served, hub, name), f"the server {name}")
    assert (hub.servers / "clock.json").is_file()


def test_there_are_twenty_recipes_with_commands() -> None:
    """Issue 17 part 8."""
    page = CONSOLE.sub("COMMANDS", (ROOT / "docs" / "recipes.md").read_text("utf-8"))
    _, *recipes = page.split("\n## ")
    assert len(recipes) >= 20
    assert [recipe.partition("\n")[0] for recipe in recipes if "COMMANDS" not in recipe] == []


def test_no_document_shows_a_command_that_nothing_runs() -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in documents]
    with_commands = {name for name in names if re.search(r"^\$ ", (ROOT / name).read_text("utf-8"), re.MULTILINE)}
    assert with_commands == {*PAGES, *RUN_ELSEWHERE}
    shown = {line for page in PAGES for line, _ in commands(page)}
    assert set(NOT_RUN) <= shown
