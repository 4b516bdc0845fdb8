"""Three real clients of npm read the entry that `patchbay install` writes, and connect to the hub. Issue 17 item 3.

`claude mcp list`, `codex mcp list` and `gemini mcp list` run as a user runs them, with a home of their own. Then
`patchbay import` finds what each of them adds, and `patchbay uninstall` leaves their files as they were before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchbay.client.applications.applications import APPLICATIONS, Machine
from tests.checkout import ROOT
from tests.cli.workspace import NPM_CACHE
from tests.interaction.peers import NODE
from tests.interaction.programs import Hub

SECONDS = 600.0
"""Time of one command; the packages are large."""


@dataclass(frozen=True)
class RealClient:
    """A client of npm: its package and program, what its list has to say, and a command that adds a server."""

    name: str
    package: str
    program: str
    expected: str
    add: tuple[str, ...]
    """The words after `mcp add`, up to the URL."""

    @property
    def url(self) -> str:
        """The URL of the server that it adds; another one for each client."""
        return f"https://{self.name}.example/mcp"


CLIENTS = (
    RealClient(
        "claude-code",
        "@anthropic-ai/claude-code",
        "claude",
        r"patchbay: {url} \(HTTP\) - .* Connected",
        ("-s", "user", "--transport", "http", "far"),
    ),
    RealClient("codex", "@openai/codex", "codex", r"patchbay +{url} .* enabled", ("far", "--url")),
    RealClient(
        "gemini",
        "@google/gemini-cli",
        "gemini",
        r"patchbay: {url} \(http\) - Connected",
        ("-s", "user", "--transport", "http", "far"),
    ),
)


class Clients:
    """The installed clients, with a home and a folder of work."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.folder = hub, folder / "clients"
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.work.mkdir(parents=True)
        (self.home / ".gemini").mkdir(parents=True)
        trusted = json.dumps({str(self.work): "TRUST_FOLDER"})
        (self.home / ".gemini" / "trustedFolders.json").write_text(trusted)
        npm = NODE.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        packages = [client.package for client in CLIENTS]
        self.run([str(NODE), str(npm), "install", "--prefix", str(self.folder), *packages, "--no-audit", "--no-fund"])
        self.run([str(NODE), str(self.folder / "node_modules" / CLIENTS[0].package / "install.cjs")])

    def run(self, words: Sequence[str]) -> str:
        """What a command prints. Raises CalledProcessError."""
        programs = self.folder / "node_modules" / ".bin"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PATCHBAY_")},
            "HOME": str(self.home),
            "PATH": f"{programs}:{NODE.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PATCHBAY_SERVERS": str(self.hub.servers),
            "PATCHBAY_DATA": str(self.folder / "data"),
            "PATCHBAY_PORT": self.hub.url.rpartition(":")[2],
            NPM_CACHE: os.environ.get(NPM_CACHE, str(Path.home() / ".npm")),
        }
        done = subprocess.run(
            words, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {said}")
        return said

    def patchbay(self, *words: str) -> str:
        """What a command of this hub prints."""
        code = "from patchbay.cli import main; main(prog_name='patchbay')"
        return self.run([sys.executable, "-c", code, *words])

    def check(self, client: RealClient) -> str:
        """Install, list, add, import and uninstall with one client; return "ok" or what was wrong."""
        file = APPLICATIONS[client.name].file(Machine("linux", self.home, {}))
        self.patchbay("install", client.name)
        listed = self.run([client.program, "mcp", "list"])
        if not re.search(client.expected.format(url=re.escape(f"{self.hub.url}/mcp")), listed):
            return f"it does not list the hub: {listed}"
        self.run([client.program, "mcp", "add", *client.add, client.url])
        found = self.patchbay("import")
        if not re.search(rf"{client.name} +far +on +{re.escape(client.url)}", found):
            return f"what it added is not found: {found}"
        before = file.read_bytes()
        self.patchbay("install", client.name, "hello")
        self.patchbay("uninstall", client.name, "hello")
        if file.read_bytes() != before:
            return "its file is not as it was"
        self.patchbay("uninstall", client.name)
        return "ok" if "patchbay" not in self.run([client.program, "mcp", "list"]) else "the hub is still listed"


def clients_read_the_entry(hub: Hub, folder: Path) -> dict[str, str]:
    """By client: "ok", or what was wrong."""
    clients = Clients(hub, folder)
    return {client.name: clients.check(client) for client in CLIENTS}
