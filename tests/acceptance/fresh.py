"""Time a new user's path to the first answered call of an own tool that needs `requests`. Issue 17, "Must show".

Two paths run, each with an empty home and environment: the wheel, installed by pip into an empty virtual environment,
and a fresh clone with `scripts/run`. The tool fetches a page from an HTTP server on 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.checkout import ROOT
from tests.interaction.programs import free_port

TARGET_SECONDS = 90.0
STEP_SECONDS = 300.0
"""Time of one step; a step that takes longer fails."""

NETWORK_PREFIXES = ("PIP_", "UV_", "SSL_CERT_")
NETWORK_VARIABLES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"})
"""What stays of the environment: how this machine reaches its package index."""

PAGE = "a page of the stand-in server"
DEFINITION = '''"""Pages of the web."""
# /// script
# dependencies = ["requests>=2.32"]
# ///

import requests


def fetch(url: str) -> str:
    """Return the text of a page."""
    return requests.get(url, timeout=10).text
'''


def network_environment() -> dict[str, str]:
    """Return the variables that say how this machine reaches its package index."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(NETWORK_PREFIXES) or name in NETWORK_VARIABLES
    }


class StandIn(BaseHTTPRequestHandler):
    """Answers each GET with `PAGE`."""

    def do_GET(self) -> None:
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@contextmanager
def stand_in() -> Iterator[str]:
    """The URL of an HTTP server that runs during the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class FreshPath:
    """One path of a new user, in an empty folder, with the seconds of its steps."""

    name: str
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        self.home.mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        """An empty home and the default PATH, with the settings of the package index."""
        return {
            **network_environment(),
            "HOME": str(self.home),
            "PATH": os.defpath.removeprefix(":"),
            "LANG": "C.UTF-8",
        }

    def step(self, name: str, action: Callable[[], object]) -> None:
        """Do one step and print its seconds."""
        begun = time.monotonic()
        action()
        self.seconds[name] = time.monotonic() - begun
        sys.stdout.write(f"{self.name}: {name}: {self.seconds[name]:.1f} s\n")
        sys.stdout.flush()

    def run(self, *words: str) -> None:
        """Run a command. Raises RuntimeError with its output when it fails."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=STEP_SECONDS
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")

    def start_and_call(self, command: Sequence[str]) -> None:
        """Start the hub, save the definition, and call its tool."""
        port, servers = free_port(), self.folder / "servers"
        servers.mkdir()
        words = [*command, "--port", str(port), "--data", str(self.folder / "data"), "--servers", str(servers)]
        log = self.folder / "log"
        with log.open("wb") as output:
            hub = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        url = f"http://127.0.0.1:{port}"

        def check_running() -> None:
            if hub.poll() is not None:
                raise RuntimeError(f"the hub ended with exit code {hub.returncode}: {log.read_text()}")

        try:
            self.step("start the hub", lambda: wait_for(lambda: is_ready(url), check_running))
            (servers / "pages.py").write_text(DEFINITION)
            with stand_in() as page:
                self.step("first answered call", lambda: wait_for(lambda: is_answered(url, page), check_running))
        finally:
            hub.send_signal(signal.SIGTERM)
            hub.wait(STEP_SECONDS)

    def is_in_time(self) -> bool:
        """Print the total; return whether it is within `TARGET_SECONDS`."""
        total = sum(self.seconds.values())
        sys.stdout.write(f"{self.name}: total: {total:.1f} s (at most {TARGET_SECONDS:.0f} s)\n")
        return total <= TARGET_SECONDS


def wait_for(is_done: Callable[[], bool], check_running: Callable[[], None]) -> None:
    """Wait until `is_done()` is true. Raises TimeoutError after `STEP_SECONDS`."""
    end, pause = time.monotonic() + STEP_SECONDS, threading.Event()
    while not is_done():
        check_running()
        if time.monotonic() > end:
            raise TimeoutError(f"the step took longer than {STEP_SECONDS:.0f} s")
        pause.wait(0.1)


def is_ready(url: str) -> bool:
    """Whether the hub answers that it is ready."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def is_answered(url: str, page: str) -> bool:
    """Whether a call of the tool returns the page; the hub may not serve it yet, or still install its packages."""
    params = {"name": "fetch", "arguments": {"url": page}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/mcp/pages", body, headers), timeout=120) as answer:
            result = json.load(answer).get("result", {})
    except OSError:
        return False
    return not result.get("isError", True) and result["content"][0]["text"] == PAGE


def from_wheel(folder: Path) -> bool:
    """The path with the wheel; the build of the wheel does not count. Return whether it is in time."""
    path = FreshPath("wheel", folder)
    build = [str(ROOT / ".venv/bin/uv"), "build", "--wheel", "--quiet", "--out-dir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, timeout=STEP_SECONDS)
    (wheel,) = (folder / "dist").glob("*.whl")
    programs = folder / "venv" / "bin"
    path.step("make a virtual environment", lambda: path.run("python3", "-m", "venv", str(programs.parent)))
    path.step("pip install", lambda: path.run(str(programs / "pip"), "install", "--quiet", str(wheel)))
    path.start_and_call([str(programs / "patchbay"), "serve"])
    return path.is_in_time()


def from_clone(folder: Path) -> bool:
    """The path with a clone of the committed state. Return whether it is in time."""
    path = FreshPath("clone", folder)
    clone = folder / "patchbay"
    path.step("git clone", lambda: path.run("git", "clone", "--quiet", "--no-local", str(ROOT), str(clone)))
    path.start_and_call([str(clone / "scripts" / "run")])
    return path.is_in_time()


def first_calls_are_in_time(folder: Path) -> bool:
    """Run both paths; return whether each reaches its first answered call in time."""
    return all([from_wheel(folder / "wheel"), from_clone(folder / "clone")])
