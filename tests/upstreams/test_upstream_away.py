"""A mounted server that goes away and comes back, a cycle of mounts, and leftovers of a removed mount."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.upstreams import standing
from patchbay.upstreams.connections.standing_connection import StandingConnection
from tests.checkout import ROOT
from tests.client.reaching import SCRIPTED, held
from tests.hubs import MODERN, Hub, sse_messages
from tests.interaction.programs import free_port, running, running_hub
from tests.waiting import BOUND, until

PIPED = f"mcp+stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPTED))}"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub without mounts in this process."""
    hub = Hub(tmp_path / "hub")
    yield hub
    hub.close()


def mount(hub: Hub, name: str, address: str, **fields: Any) -> None:
    """Mount a server and wait until its state is known."""
    (hub.servers / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address, **fields}), "utf-8")
    until(lambda: state(hub, name) not in (None, "connecting"), f"{name} to be reached")


def state(hub: Hub, name: str) -> str | None:
    """Return the state of the server behind a mount, None without such a mount."""
    found = next((server for server in hub.catalogue.all() if server.name == name), None)
    return str(found.upstream.health.state) if found is not None and found.upstream is not None else None


def page_text(hub: Hub, path: str, form: str = "text/html") -> str:
    """Return the text of a page."""
    page = hub.client.get(path, headers={"Host": "localhost", "Accept": form})
    assert page.status_code == 200
    return str(page.text)


def tools(hub: Hub, name: str) -> list[str]:
    return [tool["name"] for tool in hub.modern(name, "tools/list").result["tools"]]


@contextmanager
def sdk_server(port: int, folder: Path) -> Iterator[None]:
    """A server made with the official Python SDK."""
    folder.mkdir(parents=True)
    program = str(ROOT / "tests/interaction/sdk_server.py")
    url = f"http://127.0.0.1:{port}/mcp"
    with running([sys.executable, program, str(port)], url, folder, range(200, 500), (0, -15)):
        yield


@pytest.mark.process
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_calls_of_an_upstream_that_is_away_fail_fast_and_its_list_stays(hub: Hub, tmp_path: Path, era: str) -> None:
    port = free_port()
    with sdk_server(port, tmp_path / "first"):
        mount(hub, "far", f"http://127.0.0.1:{port}/mcp", era=era)
        until(lambda: "greet" in tools(hub, "far"), "the list")
        assert hub.call("far", "greet", {"name": "Ada"}).text == "Hello, Ada!"
        listed = tools(hub, "far")
    until(lambda: hub.call("far", "greet", {"name": "Ada"}).result.get("isError"), "calls to fail")
    until(lambda: state(hub, "far") == "down", "the upstream to be marked")
    answer = hub.call("far", "greet", {"name": "Ada"})
    assert "it does not answer" in answer.text
    assert not answer.streamed, "an answer that took no time is not a stream"
    assert tools(hub, "far") == listed
    for path, words in (
        ("/servers/far", "does not answer"),
        ("/servers/far/settings", "does not answer"),
        ("/servers", "not reachable"),
    ):
        assert words in page_text(hub, path)
        found = json.loads(page_text(hub, path, "application/json"))
        known = next(one for one in found if one["name"] == "far") if isinstance(found, list) else found["server"]
        assert (known["upstream"]["state"], known["status"]) == ("down", "on")
    with sdk_server(port, tmp_path / "second"):
        until(lambda: not hub.call("far", "greet", {"name": "Ada"}).result.get("isError"), "it to come back")
        assert state(hub, "far") == "up"


@pytest.mark.process
def test_the_last_list_is_there_when_the_hub_starts_without_the_upstream(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "hub"
    first = Hub(folder, store="sqlite")
    with sdk_server(port, tmp_path / "sdk"):
        mount(first, "far", f"http://127.0.0.1:{port}/mcp")
        until(lambda: "greet" in tools(first, "far"), "the list")
    first.close()
    second = Hub(folder, store="sqlite")
    try:
        assert "greet" in tools(second, "far")
        assert "it does not answer" in second.call("far", "greet", {"name": "Ada"}).text
    finally:
        second.close()


@pytest.mark.process
def test_a_removed_mount_leaves_no_process_and_descriptor(hub: Hub) -> None:
    """Processes and descriptors are as before; threads are not counted, because the client keeps some for the next
    mount.
    """
    mount(hub, "warm", PIPED)
    (hub.servers / "warm.json").unlink()
    until(lambda: state(hub, "warm") is None, "the first mount to go")
    before = until(lambda: held()[:2] if not _children_of_mounts() else None, "its process to end")
    for number in range(3):
        mount(hub, f"piped{number}", PIPED)
    session = hub.open("piped0", capabilities={"elicitation": {}})
    assert hub.legacy("piped0", "tools/call", {"name": "echo", "arguments": {}}, session).result["content"]
    assert len(held()[0] - before[0]) >= 3
    for file in hub.servers.glob("piped*.json"):
        file.unlink()
    until(lambda: all(now <= then for now, then in zip(held()[:2], before, strict=True)), f"no more than {before}")


@pytest.mark.process
def test_a_call_that_outlives_its_mount_leaves_no_connection_behind(hub: Hub) -> None:
    """The call ends on the connection on which it began, and that connection ends with it."""
    mount(hub, "piped", PIPED)
    before, old = _children_of_mounts(), hub.catalogue.find("piped").upstream
    headers = {"Mcp-Session-Id": hub.open("piped", capabilities={"elicitation": {}})}
    params = {"name": "ask", "arguments": {}}
    frames = hub.stream("piped", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)
    question = next(each for frame in frames for each in sse_messages(frame) if "method" in each)
    of_the_call = _children_of_mounts() - before
    assert of_the_call
    mount(hub, "piped", PIPED, environment={"ANOTHER": "mount"})
    until(lambda: hub.catalogue.find("piped").upstream is not old, "the other mount")
    old.join(BOUND)
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
    assert hub.send("piped", answer, headers).status == 202
    last = [each for frame in frames for each in sse_messages(frame)][-1]
    assert "decline" in last["result"]["content"][0]["text"]
    until(lambda: state(hub, "piped") == "up", "the new mount")
    until(lambda: not of_the_call & _children_of_mounts(), "the old connection to end")


@pytest.mark.process
@pytest.mark.parametrize("anew", [False, True])
def test_a_change_before_the_subscription_is_not_missed(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    """The upstream does not repeat announcements that came before the subscription."""
    with running_hub(tmp_path / "up") as up:
        original, announced = StandingConnection._listening, list[str]()

        def listening(standing: StandingConnection, connection: Connection, uris: list[str]) -> Any:
            target, heard = Http(up.endpoint("hello")), lambda method, _: announced.append(method)
            with Connection.open(target, era="modern", listener=heard) as watcher, watcher.listen():
                (up.servers / "hello.py").write_text('def late() -> str:\n    return "late"\n', "utf-8")
                until(lambda: "notifications/tools/list_changed" in announced, "the change to be told")
            return original(standing, connection, uris)

        if anew:
            mount(hub, "far", up.endpoint("hello"), era="modern")
            (up.servers / "hello.py").write_text('def early() -> str:\n    return "early"\n', "utf-8")
            until(lambda: tools(hub, "far") == ["early"], "the mount to listen")
        monkeypatch.setattr(StandingConnection, "_listening", listening)
        if anew:
            hub.catalogue.find("far").upstream.subscribe(["x://a"])
        else:
            mount(hub, "far", up.endpoint("hello"), era="modern")
        until(lambda: tools(hub, "far") == ["late"], "the new list")
        monkeypatch.undo()


@pytest.mark.process
def test_a_resource_is_subscribed_to_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream is not asked for everything again with each newly requested resource."""
    original, asked = StandingConnection._try_request, list[str]()

    def trying(standing: StandingConnection, connection: Connection, method: str, params: Any) -> None:
        original(standing, connection, method, params)
        asked.extend([params["uri"]] if method == "resources/subscribe" else [])

    monkeypatch.setattr(StandingConnection, "_try_request", trying)
    mount(hub, "piped", PIPED)
    until(lambda: "echo" in tools(hub, "piped"), "what it offers")
    session, uris = hub.open("piped"), [f"x://{number}" for number in range(4)]
    for uri in uris:
        assert hub.legacy("piped", "resources/subscribe", {"uri": uri}, session).result == {}
        until(partial(asked.__contains__, uri), "the upstream to be asked")
    assert asked == uris


@pytest.mark.process
def test_a_server_that_asks_for_roots_after_the_handshake_fails_no_call(hub: Hub) -> None:
    """Many servers ask right after the handshake, whichever call comes first."""
    mount(hub, "piped", f"{PIPED} roots")
    until(lambda: "echo" in tools(hub, "piped"), "its list")
    for version in ("2025-11-25", MODERN):
        assert hub.call("piped", "echo", {}, version).text == '{"roots": -32601}'


def _children_of_mounts() -> set[int]:
    return {pid for pid in held()[0] if str(SCRIPTED) in _command(pid)}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.process
def test_launchers_beside_the_hub_are_found_whatever_path_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JN-6: `scripts/run` starts it without its own programs on the PATH."""
    monkeypatch.setenv("PATH", "/nowhere")
    hub = Hub(tmp_path / "hub")
    try:
        mount(hub, "script", f"mcp+python://{SCRIPTED}")
        assert state(hub, "script") == "up"
    finally:
        hub.close()


def test_a_tool_of_an_unreachable_mount_fails_with_the_reason(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub")
    try:
        mount(hub, "far", "mcp+stdio:no-such-program")
        answer = hub.call("far", "greet", {}).text
        assert "no tool 'greet' on far; of the server behind this mount: it does not answer" in answer
        assert "there is no program 'no-such-program'" in answer
    finally:
        hub.close()


@pytest.mark.process
def test_the_first_list_of_a_mount_waits_for_the_first_answer(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 17, part 2: a client that asked right after the start got an empty list, and then a change."""
    go = tmp_path / "go"
    words = f"until [ -e {shlex.quote(str(go))} ]; do sleep 0.05; done; exec {PIPED.removeprefix('mcp+stdio:')}"
    address = f"mcp+stdio:sh -c {shlex.quote(words)}"
    fields = {"kind": "upstream", "address": address, "reads": [str(tmp_path)]}
    (hub.servers / "slow.json").write_text(json.dumps(fields), "utf-8")
    until(lambda: state(hub, "slow") == "connecting", "the mount to be known")
    monkeypatch.setattr(standing, "FIRST_LISTS_SECONDS", 0.0)
    assert tools(hub, "slow") == []  # the wait has a limit
    monkeypatch.setattr(standing, "FIRST_LISTS_SECONDS", BOUND)
    # A mount does not wait, so that mounts that lead to each other are found; other servers do not wait either.
    assert hub.modern("slow", "tools/list", meta={"io.patchbay/via": ["a/b"]}).result["tools"] == []
    assert "tools" in hub.modern("", "tools/list").result
    with ThreadPoolExecutor(1) as threads:
        listed = threads.submit(tools, hub, "slow")
        assert not listed.done()
        go.touch()
        assert "echo" in listed.result(BOUND)


@pytest.mark.process
@pytest.mark.parametrize("target", ["", "me", "other"])
def test_a_hub_that_mounts_itself_is_a_cycle(tmp_path: Path, target: str) -> None:
    """Itself, itself through a second mount, or the aggregate of all its servers."""
    with running_hub(tmp_path / "hub") as up:
        place = f"{up.url}/mcp/{target}".rstrip("/")
        mounts = {"me": place, "other": f"{up.url}/mcp/me"} if target == "other" else {"me": place}
        for name, address in mounts.items():
            (up.servers / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
        until(lambda: "lead back to this mount" in up.log.read_text("utf-8"), "the circle to be found")
        assert up.log.read_text("utf-8").count("lead back") <= 2 * len(mounts)


@pytest.mark.process
def test_a_call_that_comes_back_to_its_mount_is_refused(hub: Hub) -> None:
    mount(hub, "piped", PIPED)
    until(lambda: "echo" in tools(hub, "piped"), "its list")
    mounted = hub.catalogue.find("piped").upstream
    answer = hub.modern("piped", "tools/call", {"name": "echo"}, meta={"io.patchbay/via": ["a/b", mounted.id]})
    assert "this call came back to piped through 2 mounted servers, so it was ended" in answer.text


@pytest.mark.process
def test_secrets_come_from_the_environment_and_are_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "s3cret-value")
    hub = Hub(tmp_path / "hub")
    try:
        headers = {"Authorization": "Bearer ${FAR_TOKEN}"}
        mount(hub, "far", f"http://127.0.0.1:{free_port()}/s3cret-value", headers=headers)
        health = hub.catalogue.find("far").upstream.health
        assert health.state == "down"
        assert "***" in health.sentence
        mount(hub, "near", f"http://127.0.0.1:{free_port()}/mcp", headers=headers)
        # The page of `far` shows its definition as it was written: there the word is not a variable.
        pages = [page_text(hub, path) for path in ("/servers/near", "/servers/near/source", "/servers")]
        calls = [hub.call(name, "greet").body.decode() for name in ("far", "near")]
        assert not any("s3cret-value" in text for text in (str(health.data()), *pages, *calls, caplog.text))
    finally:
        hub.close()


@pytest.mark.process
def test_a_mounted_program_gets_no_secret_of_the_hub_except_those_that_its_mount_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """37"""
    secrets = ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PATCHBAY_KEY", "REDISCLI_AUTH", "PATCHBAY_BLOBS")
    for name in secrets:
        monkeypatch.setenv(name, "confidential")
    hub = Hub(tmp_path / "hub")

    def shown_by(name: str, **environment: str) -> set[str]:
        """Return the secrets that a mounted program gets; each has a file of its own, because it is started again."""
        show = f"import json,os; open({str(tmp_path / name)!r}, 'w').write(json.dumps(dict(os.environ)))"
        program = f"mcp+stdio:{shlex.quote(sys.executable)} -c {shlex.quote(show)}"
        mount(hub, name, program, writes=[str(tmp_path)], environment=environment)
        return set(secrets) & set(json.loads((tmp_path / name).read_text()))

    try:
        assert shown_by("plain") == set()
        assert shown_by("named", PGPASSWORD="${PGPASSWORD}") == {"PGPASSWORD"}
        with pytest.raises(FileNotFoundError):
            shown_by("key", KEY="${PATCHBAY_KEY}")
        assert state(hub, "key") == "down"
    finally:
        hub.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"address": "https://x.example/mcp", "headers": {"Authorization": "Bearer abc"}}, "expected a variable"),
        ({"address": "mcp+stdio:server --api-key abc"}, "expected a variable"),
        ({"address": "https://x.example/mcp?token=abc"}, "expected a variable"),
        ({"address": "mcp+stdio:server", "headers": {"X-A": "b"}}, "headers only for the address of a URL"),
        (
            {"address": "https://x.example/mcp", "environment": {"A": "b"}},
            "an environment only for the address of a program",
        ),
        ({"address": "/mcp/echo"}, "servers of this hub need no mount"),
        ({"address": "@profile/tool"}, "without an operation or arguments"),
        ({"address": "nonsense"}, "not an address"),
    ],
)
def test_an_invalid_mount_is_refused_with_the_reason(hub: Hub, fields: dict[str, Any], expected: str) -> None:
    (hub.servers / "far.json").write_text(json.dumps({"kind": "upstream", **fields}), "utf-8")
    found = until(lambda: next((one for one in hub.catalogue.all() if one.name == "far"), None), "the server")
    assert expected in (found.broken or "")


def test_an_entry_of_the_mcps_variable_mounts_only_servers_of_an_operator(hub: Hub) -> None:
    """X-16, JN-C19: a configuration that came over HTTP starts no program."""
    store = hub.catalogue.store
    config = store.blobs.put(json.dumps({"kind": "upstream", "address": PIPED}).encode())
    text = store.blobs.put(json.dumps({"entry": {"config_cid": config}}).encode())
    store.names.move({"variables/mcps": text}, "web", "over HTTP")
    hub.catalogue.refresh()
    assert "which needs the operator" in getattr(hub.catalogue.find_any("entry"), "broken", "")
    store.names.move({"variables/mcps": None}, "web", "away")
    hub.catalogue.refresh()
    store.names.move({"variables/mcps": text}, "start", "a boot image")
    hub.catalogue.refresh()
    until(lambda: state(hub, "entry") == "up", "the mount to be reached")
    until(lambda: "echo" in tools(hub, "entry"), "its list")
