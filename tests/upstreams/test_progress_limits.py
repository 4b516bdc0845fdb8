"""Time limits of calls of a mounted server that report progress: one without progress, and one in all."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.events import Progress
from tests.client.reaching import text
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.waiting import until

EVERYTHING = PACKAGES / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
SECONDS, LONGER = 6, 8
"""The limit without progress, and how long a call takes."""

OPTIONS = ("--workers", "1", "--timeout", str(SECONDS))
TOOL = "trigger-long-running-operation"

SHORT = {"timeout": SECONDS, "progress_timeout": SECONDS + 1}
"""Limits of a mount of its own."""

pytestmark = [pytest.mark.process, pytest.mark.node]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that mounts the official server over HTTP and as programs, with the default limits and with others."""
    folder, port = tmp_path_factory.mktemp("limits"), free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    program = f"mcp+stdio:{shlex.join([str(NODE), str(EVERYTHING), 'stdio'])}"
    mounts: dict[str, dict[str, Any]] = {
        "web": {"address": url},
        "piped": {"address": program},
        "short": {"address": program, **SHORT},
        "own": {"address": program, "timeout": SECONDS},
        "chosen": {"kind": "toolset", "include": [f"piped.{TOOL}"]},
        "capped": {"kind": "toolset", "include": [f"piped.{TOOL}"], "timeout": SECONDS - 1},
    }
    for name, fields in mounts.items():
        (folder / f"{name}.json").write_text(json.dumps({"kind": "upstream", **fields}), "utf-8")
    (folder / "server").mkdir()
    command = ["env", f"PORT={port}", str(NODE), str(EVERYTHING), "streamableHttp"]
    files = [folder / f"{name}.json" for name in mounts]
    with (
        running(command, url, folder / "server", range(200, 500), (0, -15)),
        running_hub(folder / "hub", files, options=OPTIONS) as hub,
    ):
        for name in mounts:
            with Connection.open(Http(hub.endpoint(name))) as caller:
                until(caller.list_tools, f"the tools of {name}")
        yield hub


def work(hub: Hub, name: str, era: Any, has_token: bool, seconds: int = LONGER) -> tuple[bool, str, int]:
    """Call a tool that reports progress five times a second. Return whether it failed, its text and its progress."""
    heard: list[Any] = []
    on_event = heard.append if has_token else None
    arguments = {"duration": seconds, "steps": seconds * 5}
    with Connection.open(Http(hub.endpoint(name)), era=era) as caller:
        answer = caller.call_tool(TOOL, arguments, on_event=on_event)
    return bool(answer.get("isError")), text(answer), sum(isinstance(item, Progress) for item in heard)


def test_a_call_with_progress_goes_on_and_one_without_it_ends_at_the_limit(hub: Hub) -> None:
    """Issue 50, wishes: over HTTP and a pipe, for callers of both eras; at once, because each call takes its time."""
    ways = list(product(("web", "piped"), ("legacy", "modern")))
    with ExitStack() as closing:
        threads = closing.enter_context(ThreadPoolExecutor(16))
        lively = [threads.submit(work, hub, name, era, True) for name, era in ways]
        silent = [threads.submit(work, hub, name, era, False) for name, era in ways]
        bounded = [threads.submit(work, hub, "short", era, True, 60) for era in ("legacy", "modern")]
        through = [threads.submit(work, hub, "chosen", era, True) for era in ("legacy", "modern")]
        capped = [threads.submit(work, hub, "capped", era, True) for era in ("legacy", "modern")]
        own = [threads.submit(work, hub, "own", era, True) for era in ("legacy", "modern")]
    for way, one in zip(ways, lively, strict=True):
        failed, words, steps = one.result()
        assert not failed and "completed" in words and steps == LONGER * 5, (way, words)
    for way, one in zip(ways, silent, strict=True):
        failed, words, steps = one.result()
        assert failed and words.startswith("timed out after") and steps == 0, (way, words)
    for one in through:
        failed, words, steps = one.result()
        assert not failed and "completed" in words and steps == LONGER * 5, words
    for one in capped:
        failed, words, steps = one.result()
        assert failed and words.startswith("timed out after") and steps, "the toolset has a shorter limit in all"
    for one in bounded:
        failed, words, steps = one.result()
        assert failed and "progress until its limit in all (progress_timeout)" in words and steps, words
    for one in own:
        failed, words, steps = one.result()
        assert failed and words.startswith("timed out after") and steps, "a limit that the operator set is one in all"
