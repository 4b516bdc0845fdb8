"""A restart while a script waits for a person: what becomes of the script, here and in FastMCP's code mode.

The script finds issues, which writes a word into a file, and closes one, which needs a person. As soon as the person
is asked, the server gets SIGTERM and is started again. Then the person agrees, if the question is still there, and the
client sends the same call again, as a model does after a connection that broke.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.contenders import ENDED_BY_SIGTERM
from benchmarks.gateways import UVX
from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.errors import PatchbayError
from tests.checkout import ROOT
from tests.interaction.programs import free_port, running
from tests.scripting.closing import FILES
from tests.serving.running import running as running_hub
from tests.waiting import until

WAIT_SECONDS = 60.0
"""Limit on each step."""

SCRIPT = """import issues
numbers = await issues.find(folder=folder, count=1)
await issues.close(folder=folder, number=numbers[0])
"""

SCRIPT_OF_FASTMCP = """numbers = await call_tool("find", {"count": 1})
return await call_tool("close", {"number": numbers["result"][0]})
"""


@dataclass(frozen=True)
class Ending:
    """What the same call answers after a restart, whether the person was asked again, and how often each tool ran."""

    answer: str
    is_asked_again: bool
    found: int
    closed: int

    def __str__(self) -> str:
        question = "the person is asked again" if self.is_asked_again else "the question stays"
        made = f"made in all: find {self.found} times, close {self.closed} times"
        return f"{question}; the same call then answers: {self.answer} ({made})"


class Person:
    """Answers questions of a server: the first one never, because the server ends, and each later one with yes."""

    def __init__(self) -> None:
        self.questions = 0
        self.asked, self.over = threading.Event(), threading.Event()

    def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one question."""
        self.questions += 1
        if self.questions == 1:
            self.asked.set()
            self.over.wait(WAIT_SECONDS)
        return {"action": "accept", "content": {"value": True}}


def restart_patchbay(folder: Path) -> Ending:
    """Restart this hub while a script waits for an approval; the operator approves after the restart."""
    (folder / "servers").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "servers" / name).write_text(text)
    arguments = {"code": SCRIPT, "inputs": {"folder": str(folder)}}
    with running_hub(folder) as hub:
        base, operator = f"http://127.0.0.1:{hub.port}", hub.as_operator()
        with _calling(f"{base}/mcp/issues", "run_script", arguments):
            until(lambda: _questions(base, operator), "the question")
            hub.end()
    with running_hub(folder) as hub:
        base, operator = f"http://127.0.0.1:{hub.port}", hub.as_operator()
        (question,) = _questions(base, operator)
        form = {"id": question, "do": "approve"}
        httpx2.post(
            f"{base}/approvals", headers={**operator, "Accept": "application/json"}, data=form
        ).raise_for_status()
        person = Person()
        answer = _call(f"{base}/mcp/issues", "run_script", arguments, person.ask)
        hub.end()
    return Ending(answer, person.questions > 0, _count(folder, "found"), _count(folder, "closed"))


def restart_fastmcp(folder: Path, package: str) -> Ending:
    """Restart FastMCP while a script waits for the answer of the client's user, who agrees afterwards."""
    folder.mkdir()
    arguments, person = {"code": SCRIPT_OF_FASTMCP}, Person()
    with _running_fastmcp(folder, package) as (url, process), _calling(url, "execute", arguments, person.ask):
        assert person.asked.wait(WAIT_SECONDS), "the person was not asked"
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        person.over.set()
    with _running_fastmcp(folder, package) as (url, process):
        answer = _call(url, "execute", arguments, person.ask)
        process.terminate()
    return Ending(answer, person.questions > 1, _count(folder, "found"), _count(folder, "closed"))


@contextmanager
def _running_fastmcp(folder: Path, package: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    program = ROOT / "benchmarks/peers/fastmcp_waiting.py"
    command = [str(UVX), "--from", package, "python", str(program), str(port), str(folder)]
    with running(command, url, folder, range(200, 501), (*ENDED_BY_SIGTERM, -9), dict(os.environ)) as process:
        yield url, process


@contextmanager
def _calling(url: str, tool: str, arguments: dict[str, Any], ask: Any = None) -> Iterator[None]:
    """Make a call in a thread, whose connection breaks before it has an answer."""

    def call() -> None:
        with suppress(Exception):  # it breaks in as many ways as there are moments for the end of a server
            _call(url, tool, arguments, ask)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        thread.join(WAIT_SECONDS)


def _call(url: str, tool: str, arguments: dict[str, Any], ask: Any) -> str:
    """Return the text of the result of a call, or why it failed."""
    try:
        with Connection.open(Http(url), era="legacy", timeout=WAIT_SECONDS, ask=ask) as connection:
            result = connection.call_tool(tool, arguments, timeout=WAIT_SECONDS)
    except (McpFailure, PatchbayError) as problem:
        return f"an error, {problem}"
    text = " ".join(str(one.get("text", "")) for one in result["content"])
    return f"an error, {text}" if result.get("isError") else text


def _questions(base: str, operator: dict[str, str]) -> list[str]:
    found = httpx2.get(f"{base}/approvals.json", headers=operator).json()["approvals"]
    return [one["id"] for one in found if one["waits"]]


def _count(folder: Path, file: str) -> int:
    path = folder / file
    return len(path.read_text().split()) if path.exists() else 0
