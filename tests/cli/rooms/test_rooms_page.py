"""docs/rooms.md: every command of its story is run, in order, against a hub with two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from tests.checkout import ROOT
from tests.interaction.programs import Hub, plain_environment, running_hub

BOUND = 60.0
PAGE = (ROOT / "docs" / "rooms.md").read_text("utf-8")
STORY = PAGE[PAGE.index("## A worked story") : PAGE.index("## Ways in")]
ADDRESS = "http://127.0.0.1:8000"
STAYING = {"announce": "is announced in", "join": "presence.join", "mount": "is mounted in"}
"""Commands that run until Ctrl-C, and what they print once they work."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    serve = next(line for line in commands() if line.startswith("patchbay serve "))
    options = [*serve.split()[2:], "--workers", "2"]
    with running_hub(tmp_path_factory.mktemp("hub") / "run", options=options) as hub:
        yield hub


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", STORY, re.DOTALL)
    return [line for block in blocks for line in block.strip().splitlines()]


def test_every_command_of_the_story_works(hub: Hub, tmp_path: Path) -> None:
    """ENS-4, ENS-7, ENS-9, ENS-16: created, announced, joined, called, mounted, logged, verified, forked."""
    for name in ("notes", "sums"):
        source = re.search(rf"`{name}\.py`.*?```python\n(.*?)```", STORY, re.DOTALL)
        assert source is not None
        (tmp_path / f"{name}.py").write_text(source[1])
    printed: dict[str, str] = {}
    with ExitStack() as stack:
        for line in commands():
            if line.startswith("patchbay serve "):
                continue
            typed = line.replace(ADDRESS, hub.url)
            word = typed.split()[2]
            if typed.startswith("patchbay room") and word in STAYING:
                stack.enter_context(staying(typed, STAYING[word], tmp_path))
            else:
                printed[line.split(ADDRESS)[0].strip()] = run(typed, tmp_path)
    assert printed["patchbay room call"] == "plan the move\nplan the party\n"
    assert printed["patchbay call"].strip() == "42"
    assert "notes__find" in printed["patchbay inspect"]
    verdict = orjson.loads(printed["patchbay room verify demo.ndjson"])
    assert verdict["entries"] > 10
    assert f"{hub.url}/rooms/demo-again" in printed["patchbay room fork"]
    assert "its log is in demo-again.ndjson, 1 entries, head bafk" in printed["patchbay room remove"]
    assert orjson.loads(run("patchbay room verify demo-again.ndjson", tmp_path))["entries"] == 1
    lines = (tmp_path / "demo.ndjson").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"at":1', b'"at":2', 1)
    (tmp_path / "wrong.ndjson").write_bytes(b"".join(lines))
    wrong = finished("patchbay room verify wrong.ndjson", tmp_path)
    assert wrong.returncode == 1
    assert "entry 5 is wrong" in wrong.stderr


def finished(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=BOUND
    )


def run(line: str, folder: Path) -> str:
    done = finished(line, folder)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """The environment of a person whose `patchbay` is that of this checkout."""
    return plain_environment(folder) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@contextmanager
def staying(line: str, ready: str, folder: Path) -> Iterator[None]:
    """A command that runs until it is told to end; entered once it has printed that it works."""
    with subprocess.Popen(
        f"exec {line}",
        shell=True,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        read: list[str] = []
        for text in process.stdout:
            read.append(text)
            if ready in text:
                break
        else:
            raise AssertionError(f"{line} ended: {read}")
        rest = threading.Thread(target=process.stdout.read)
        rest.start()
        try:
            yield
        finally:
            process.terminate()
            code = process.wait(BOUND)
            rest.join(BOUND)
        assert code == 0, line


def test_an_older_mount_of_one_id_ends_with_a_sentence(hub: Hub, tmp_path: Path) -> None:
    """34.9: the newer mount serves; the older command is told, and ends with exit code 1."""
    room = f"{hub.url}/rooms/twice"
    run(f"patchbay room create {room}", tmp_path)
    command = f"patchbay room mount {room} greeter {hub.url}/mcp/hello"
    words = [sys.executable, "-m", *command.split()]
    env = environment(tmp_path)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=env
    ) as older:
        assert older.stdout is not None
        assert STAYING["mount"] in older.stdout.readline()
        with staying(command, STAYING["mount"], tmp_path):
            assert f"another session shares greeter in {room} now" in older.stdout.read()
            assert older.wait(BOUND) == 1
