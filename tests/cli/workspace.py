"""A place to run `jn` and `patchbay` in as users do: a folder and a home of its own, the two programs on the PATH.

The PATH has the programs and the system's own folders only: how `uv` and `npx` are found is the program's own affair.
Downloads are cached in the cache folders of the user who runs the tests.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from patchbay.cli import jn, main
from patchbay.client.kept.connection import ask
from tests.checkout import ROOT

CHANGING = Path(__file__).with_name("changing.py")
BOUND = 150.0
"""Seconds that one command line may take; a package may have to be fetched."""

NPM_CACHE = "npm_config_cache"
FETCHING = re.compile(r"(?i:\w+_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|UV_\w+|npm_config_\w+)")
"""Names of variables that say how this machine fetches packages."""

SEARCH = {
    "name": "search",
    "description": "Search biomedical resources",
    "inputSchema": {
        "type": "object",
        "properties": {
            "gene": {"type": "string", "description": "Gene symbol (e.g., BRAF, TP53)"},
            "disease": {"type": "string", "description": "Disease or condition name"},
        },
        "required": ["gene"],
    },
}
COUNT = {"name": "count", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
Json = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[Json]:
        """The lines of standard output, each a JSON value."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Workspace:
    """A folder with a home, the programs, and servers to be reached. `environment` is added to what programs see."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        self.home.mkdir()
        self.work.mkdir()
        for name, attribute in (("jn", "jn"), ("patchbay", "main")):
            code = f"from patchbay.cli import {attribute}; {attribute}(prog_name={name!r})"
            script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n'
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """Where commands are run."""
        return self.folder / "work"

    def environ(self) -> dict[str, str]:
        """The environment of commands."""
        own = Path(os.environ.get("HOME", "/"))
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PATCHBAY_DATA": str(self.folder / "data"),
            "PATCHBAY_WRITES": str(self.work),  # the programs of tests keep a log beside the files that they serve
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(own / ".cache" / "uv")),
            NPM_CACHE: os.environ.get(NPM_CACHE, str(own / ".npm")),
            **{name: value for name, value in os.environ.items() if FETCHING.fullmatch(name)},
            **self.environment,
        }

    def run(self, line: str, stdin: str = "", seconds: float = BOUND) -> Ended:
        """A command line, run by bash."""
        command = ["bash", "-o", "pipefail", "-c", line]
        ended = subprocess.run(
            command, cwd=self.work, env=self.environ(), input=stdin, capture_output=True, text=True, timeout=seconds
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def quick(self, line: str, stdin: str = "", folder: Path | None = None) -> Ended:
        """One command of `jn` or `patchbay`, in this process: no shell, no terminal, nothing to load."""
        name, *words = shlex.split(line)
        program = {"jn": jn, "patchbay": main}[name]
        with chdir(folder or self.work):
            ended = CliRunner().invoke(program, words, stdin, self.environ(), prog_name=name)
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def on_terminal(self, line: str, answers: Sequence[tuple[str, str]] = (), seconds: float = BOUND) -> Ended:
        """A command line on a terminal of its own; whenever a text of `answers` was shown, its answer is typed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execvpe("bash", ["bash", "-c", line], {**self.environ(), "TERM": "xterm-256color"})
        shown, left, place = "", list(answers), 0
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                try:
                    piece = os.read(terminal, 65536)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece.decode("utf-8", "replace")
                while left and left[0][0] in shown[place:]:
                    place = shown.index(left[0][0], place) + len(left[0][0])
                    os.write(terminal, left.pop(0)[1].encode())
        finally:
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
        return Ended(os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n"), "")

    def serve(
        self, *tools: Mapping[str, Any], name: str = "tools", text: str = "", result: Mapping[str, Any] | None = None
    ) -> str:
        """Have the changing server offer these tools from now on; answers its address.

        Each call gives `text`, or the whole `result`.
        """
        path = self.work / f"{name}.json"
        given = {} if result is None else {"result": result}
        path.write_text(json.dumps({"tools": list(tools), "text": text, **given}))
        return f"mcp+stdio:{sys.executable} -S {CHANGING} {path}"

    def log(self, name: str = "tools") -> list[str]:
        """What the changing server was asked, from its first start on."""
        path = self.work / f"{name}.json.log"
        return path.read_text().splitlines() if path.exists() else []

    def profile(self, name: str, meta: Mapping[str, Any], **tools: Mapping[str, Any]) -> Path:
        """A profile of the user, written by hand."""
        directory = self.home / ".local" / "jn" / "profiles" / "mcp" / name
        directory.mkdir(parents=True, exist_ok=True)
        for stem, value in {"_meta": meta, **tools}.items():
            (directory / f"{stem}.json").write_text(json.dumps(value))
        return directory


def launch(address: str) -> Json:
    """The launch fields of a profile for an address of `serve`."""
    words = shlex.split(address.removeprefix("mcp+stdio:"))
    return {"command": words[0], "args": words[1:], "transport": "stdio"}


@contextmanager
def kept_programs(workspace: Workspace) -> Iterator[None]:
    """Give a workspace a short folder for the sockets of kept programs; their background processes end afterwards."""
    runtime = Path(tempfile.mkdtemp(prefix="kept"))
    workspace.environment["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        yield
    finally:
        for place in runtime.rglob("*.socket"):
            with suppress(OSError):
                ask(place, "stop")
        shutil.rmtree(runtime)
