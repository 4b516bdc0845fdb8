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
from patchbay.upstreams import standing
from tests.hubs import Hub
from tests.upstreams.test_upstream_away import PIPED, state
from tests.waiting import BOUND, until

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
