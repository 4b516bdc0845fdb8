"""Published servers behind a mount, in situations that users of other hubs reported. Issue 50, items 1, 4 and 5."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from tests.client.reaching import text
from tests.hubs import BOTH
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.serving.running import ONE_WORKER
from tests.waiting import BOUND, until

OFFICIAL = PACKAGES / "node_modules/@modelcontextprotocol"
EVERYTHING = OFFICIAL / "server-everything/dist/index.js"
FILESYSTEM = OFFICIAL / "server-filesystem/dist/index.js"
CUTTING = Path(__file__).with_name("half_pair_server.mjs")

pytestmark = [pytest.mark.process, pytest.mark.node]


def mounted(folder: Path, address: str) -> Any:
    """A hub that mounts one server as `it`."""
    (folder / "it.json").write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
    return running_hub(folder / "hub", [folder / "it.json"], options=ONE_WORKER)


def program(*command: str | Path) -> str:
    return f"mcp+stdio:{shlex.join(map(str, command))}"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_server_everything_is_called_again_after_its_restart(tmp_path: Path, era: Any) -> None:
    """Item 1: it answers the old session with 400 and no id, and each call failed for good."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = ["env", f"PORT={port}", str(NODE), str(EVERYTHING), "streamableHttp"]
    with mounted(tmp_path, url) as hub, ExitStack() as closing:
        with running(command, url, tmp_path, range(200, 500), (-signal.SIGKILL,)) as server:
            caller = closing.enter_context(opened(hub, era))
            until(caller.list_tools, "its tools")
            assert text(caller.call_tool("echo", {"message": "before"})) == "Echo: before"
            server.kill()
            server.wait(BOUND)
        with running(command, url, tmp_path, range(200, 500), (0, -signal.SIGTERM)):
            until(lambda: text(caller.call_tool("echo", {"message": "after"})) == "Echo: after", "a call there")
            assert text(caller.call_tool("echo", {"message": "again"})) == "Echo: again"


def opened(hub: Hub, era: Any, **options: Any) -> Connection:
    return Connection.open(Http(hub.endpoint("it")), era=era, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the command line, with two folders that the clients have as roots, and a file in each."""
    folder = tmp_path_factory.mktemp("filesystem").resolve()
    for name in ("wide", "wide/narrow", "other"):
        (folder / "work" / name).mkdir(parents=True, exist_ok=True)
        (folder / "work" / name / "note.txt").write_text(f"in {name}", "utf-8")
    return folder


@pytest.fixture(scope="module")
def filesystem(folder: Path) -> Iterator[Hub]:
    with mounted(folder, program(NODE, FILESYSTEM, folder / "work")) as hub:
        with opened(hub, "modern") as caller:
            until(caller.list_tools, "its tools")
        yield hub


def read(caller: Connection, path: Path) -> tuple[bool, str]:
    """Read a file through the server. Return whether it was an error, and the text."""
    answer = caller.call_tool("read_text_file", {"path": str(path)})
    return bool(answer.get("isError")), "".join(block["text"] for block in answer["content"])


@pytest.mark.parametrize(("name", "other"), [("wide", "other"), ("other", "wide")])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_first_call_of_server_filesystem_works_in_the_roots_of_the_client(
    filesystem: Hub, folder: Path, era: Any, name: str, other: str
) -> None:
    """Item 4: it worked in the folder of the command line, which has more."""
    roots = {"roots": [{"uri": (folder / "work" / name).as_uri()}]}
    with opened(filesystem, era, ask=lambda *_: roots) as caller:
        is_error, words = read(caller, folder / "work" / other / "note.txt")
        assert is_error and "Access denied" in words, words
    with opened(filesystem, era, ask=lambda *_: roots) as caller:
        assert read(caller, folder / "work" / name / "note.txt") == (False, f"in {name}")


def test_narrowed_roots_hold_for_the_first_call_of_server_filesystem_after_the_change(
    filesystem: Hub, folder: Path
) -> None:
    """Item 4: the old roots held for one call, so that a file outside the new ones could be read."""
    wide = folder / "work" / "wide"
    present = [wide]

    def answer(method: str, _: Any) -> Any:
        return {"roots": [{"uri": path.as_uri()} for path in present]}

    with opened(filesystem, "legacy", ask=answer) as caller:
        for _ in range(3):
            present[:] = [wide]
            announce_changed_roots(filesystem, caller)
            assert read(caller, wide / "note.txt") == (False, "in wide")
            present[:] = [wide / "narrow"]
            announce_changed_roots(filesystem, caller)
            is_error, words = read(caller, wide / "note.txt")
            assert is_error and "Access denied" in words, words
            assert read(caller, wide / "narrow" / "note.txt") == (False, "in wide/narrow")


def announce_changed_roots(hub: Hub, caller: Connection) -> None:
    """Send `roots/list_changed` in the session of a caller; the hub knows it at the end."""
    http = caller._async_connection.http
    assert http is not None and http._session_id is not None
    headers = {"Mcp-Session-Id": http._session_id, "Accept": BOTH}
    body = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    assert httpx2.post(hub.endpoint("it"), json=body, headers=headers, timeout=BOUND).status_code == 202


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_half_a_character_from_the_typescript_sdk_is_an_answer_at_once(tmp_path: Path, era: Any) -> None:
    """Item 5: the line was dropped as noise, and the call hung until its deadline."""
    # Node finds packages by the folder of the program.
    cutting = PACKAGES / f"half-pair-{os.getpid()}-{era}.mjs"
    cutting.write_text(CUTTING.read_text("utf-8"), "utf-8")
    try:
        with mounted(tmp_path, program(NODE, cutting)) as hub, opened(hub, era) as caller:
            until(caller.list_tools, "its tools")
            assert text(caller.call_tool("preview")) == "all is well \ufffd"
    finally:
        cutting.unlink()
