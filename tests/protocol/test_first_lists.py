"""A request that needs the lists of a mounted server gets them right after the start of the mount.

The catalogue of these hubs hears of new lists only when the test lets it, as on a machine under load.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.catalogue.aggregate.public_names import former_public_name, public_name
from patchbay.catalogue.catalogue import Catalogue
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Message, Notification, Request, Result, Sign
from patchbay.messages.callers import TransportInfo
from patchbay.upstreams import standing
from tests.hubs import MODERN, Hub
from tests.upstreams.test_upstream_away import PIPED, state
from tests.waiting import BOUND, until

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

pytestmark = pytest.mark.process


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub whose catalogue hears of nothing until its end."""
    late, heard = threading.Event(), Catalogue._handle_hint

    def hear(catalogue: Catalogue, topic: str, message: bytes) -> None:
        late.wait()
        heard(catalogue, topic, message)

    monkeypatch.setattr(Catalogue, "_handle_hint", hear)
    hub = Hub(tmp_path / "hub")
    yield hub
    late.set()
    hub.close()


def write_mount(hub: Hub, name: str, address: str, **fields: object) -> None:
    (hub.servers / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address, **fields}), "utf-8")
    until(lambda: state(hub, name) is not None, "the mount to be known")


def answer_of(hub: Hub, server: str, method: str) -> str:
    """Return what a client reads in the answer to a request that needs the lists of the mount `piped`."""
    prefix = "" if server else "piped__"
    if method == "tools/list":
        return " ".join(tool["name"] for tool in hub.modern(server, method).result["tools"])
    return str(hub.modern(server, "tools/call", {"name": f"{prefix}echo", "arguments": {}}).text)


@pytest.mark.parametrize(("server", "method"), [("piped", "tools/call"), ("", "tools/call"), ("piped", "tools/list")])
def test_lists_that_were_read_just_now_are_there(hub: Hub, server: str, method: str) -> None:
    """A client was told that there is no such tool, although the page said that the server answers."""
    write_mount(hub, "piped", PIPED)
    until(lambda: state(hub, "piped") == "up", "the mount")
    assert "no tool" not in (found := answer_of(hub, server, method)) and (method == "tools/call" or "echo" in found)


@pytest.mark.parametrize("name", ["my__git", "a-mount-with-a-name-above-twenty-characters"])
@pytest.mark.parametrize("named", [public_name, former_public_name, "{}.{}".format])
def test_a_call_at_mcp_finds_the_mount_of_each_name_of_its_tool(
    hub: Hub, name: str, named: Callable[[str, str], str]
) -> None:
    write_mount(hub, name, PIPED)
    until(lambda: state(hub, name) == "up", "the mount")
    assert "no tool" not in hub.modern("", "tools/call", {"name": named(name, "echo"), "arguments": {}}).text


@pytest.mark.parametrize("server", ["piped", ""])
def test_a_call_waits_for_the_first_lists_of_its_mount(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    go = tmp_path / "go"
    words = f"until [ -e {shlex.quote(str(go))} ]; do sleep 0.05; done; exec {PIPED.removeprefix('mcp+stdio:')}"
    write_mount(hub, "piped", f"mcp+stdio:sh -c {shlex.quote(words)}", reads=[str(tmp_path)])
    monkeypatch.setattr(standing, "FIRST_LISTS_SECONDS", 0.0)  # that of lists, which a call does not have
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", 0.0)
    assert "no tool" in answer_of(hub, server, "tools/call"), "the wait has a limit"
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    with ThreadPoolExecutor(1) as threads:
        called = threads.submit(answer_of, hub, server, "tools/call")
        assert not called.done()
        go.touch()
        assert "no tool" not in called.result(BOUND)


def test_a_call_that_comes_from_a_mount_does_not_wait(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two mounts that lead to each other would wait for each other."""
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    words = f"until [ -e {shlex.quote(str(tmp_path / 'go'))} ]; do sleep 0.05; done"
    write_mount(hub, "piped", f"mcp+stdio:sh -c {shlex.quote(words)}", reads=[str(tmp_path)])
    meta = {"io.patchbay/via": ["a/b"]}
    called = hub.modern("piped", "tools/call", {"name": "echo", "arguments": {}}, meta=meta)
    assert "no tool 'echo'" in called.text
    assert state(hub, "piped") == "connecting"
    (tmp_path / "go").touch()


def open_call(hub: Hub, server: str, id: int = 1) -> Iterator[Message | Sign]:
    """Return the answers to a call of `echo` from a connection, which can cancel it by its id."""
    wire = TransportInfo(server, connection="tests")
    params = {"name": "echo", "arguments": {"message": "hello"}, "_meta": META}
    return hub.app.parts.dispatcher.exchange(wire)(Request(id, "tools/call", params))


def write_silent_mount(hub: Hub, tmp_path: Path, **fields: object) -> Path:
    """Mount a program, `silent`, that is a server only when the returned file exists."""
    go = tmp_path / "go"
    words = f"until [ -e {shlex.quote(str(go))} ]; do sleep 0.05; done; exec {PIPED.removeprefix('mcp+stdio:')}"
    write_mount(hub, "silent", f"mcp+stdio:sh -c {shlex.quote(words)}", reads=[str(tmp_path)], **fields)
    return go


def test_a_call_that_waits_for_first_lists_can_be_cancelled(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    write_silent_mount(hub, tmp_path)
    answers = open_call(hub, "silent")
    assert isinstance(next(answers), Pause)
    wire = TransportInfo("silent", connection="tests")
    cancel = Notification("notifications/cancelled", {"requestId": 1, "_meta": META})
    assert [*hub.app.parts.dispatcher.exchange(wire)(cancel)] == []
    assert [*answers] == []
    assert state(hub, "silent") == "connecting"
    assert not hub.app.parts.dispatcher.services.running.busy("tests")


@pytest.mark.parametrize(
    ("service", "says", "sentence"),
    [("is_current", False, "the credentials of the caller are no longer valid"), ("over", True, "the hub is stopping")],
)
def test_a_call_that_waits_for_first_lists_ends_with_its_key_and_with_the_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str, says: bool, sentence: str
) -> None:
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    write_silent_mount(hub, tmp_path)
    answers = open_call(hub, "silent")
    assert isinstance(next(answers), Pause)
    monkeypatch.setattr(hub.catalogue.hub, service, lambda *_: says)
    [answer] = answers
    assert isinstance(answer, Failure) and sentence in answer.error["message"]
    assert state(hub, "silent") == "connecting"


def test_a_call_waits_for_first_lists_no_longer_than_its_own_limit(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    write_silent_mount(hub, tmp_path, timeout=0.3)
    assert "no tool" in hub.call("silent", "echo").text
    assert state(hub, "silent") == "connecting"


def test_calls_that_wait_for_first_lists_leave_places_for_other_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "FIRST_ENTRY_SECONDS", BOUND)
    hub = Hub(tmp_path / "hub", {"here.py": "def echo(message: str) -> str:\n    return message\n"}, threads=8)
    try:
        go = write_silent_mount(hub, tmp_path)
        calls = [open_call(hub, "silent", id) for id in range(8)]
        first = [next(answers) for answers in calls]
        waiting = [answers for answers, sign in zip(calls, first, strict=True) if isinstance(sign, Pause)]
        assert 0 < len(waiting) < 6, "three quarters of the threads are places for calls"
        refused = next(sign for sign in first if isinstance(sign, Result))
        assert "the hub connects to it for the first time" in str(refused.result)
        assert hub.call("here", "echo", {"message": "hello"}).text == "hello"
        go.touch()
        for answers in waiting:
            assert "hello" in str([*answers][-1])
    finally:
        hub.close()
