"""Mounted servers: a real MCP server at a URL, mirrored into a room within request, manifest and ACL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.activation import PAUSE
from patchbay.cid import cid_of
from patchbay.events import Content, Done, Failed, Pause, Progress
from patchbay.pins.offers import RESOURCE
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.servers.mounting import CREDENTIALS, GatewayContext
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from tests.interaction.programs import Hub, running_hub
from tests.rooms.people import Person, rooms_of
from tests.waiting import until

Json = dict[str, Any]
DEFINITION = Path(__file__).parents[1] / "upstreams" / "connections" / "upstream_definition.py"
TALK = '''"""Text in pieces."""

import time
from pathlib import Path


def talk(path: str):
    """Say a word, wait for a file, and say another word."""
    yield "first "
    while not Path(path).exists():
        time.sleep(0.02)
    yield "second"
'''
CONTEXT = GatewayContext({"ACME_TOKEN": "s3cret-of-acme"}, "this-hub", "1", ("127.0.0.1",))


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """An MCP server in a process of its own, with the tools of `work` and a few resources."""
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "work.py").write_text(DEFINITION.read_text("utf-8"), "utf-8")
    (folder / "talk.py").write_text(TALK, "utf-8")
    (folder / "talk.mcp.json").write_text('{"isolation": "inline"}', "utf-8")
    names = ("repo/a", "repo/b", "other/c")
    resources = {name.replace("/", "-"): {"uri": f"git://{name}", "text": name} for name in names}
    # Inside the hub, so that a cancelled function may write where the test looks.
    settings = {"isolation": "inline", "resources": resources}
    (folder / "work.mcp.json").write_text(orjson.dumps(settings).decode(), "utf-8")
    with running_hub(
        folder / "hub", [folder / name for name in ("work.py", "work.mcp.json", "talk.py", "talk.mcp.json")]
    ) as hub:
        yield hub


@pytest.fixture
def mounting() -> Iterator[tuple[Rooms, Store]]:
    """The rooms of a hub that may reach this machine."""
    store = MemoryStore()
    with rooms_of(store, context=CONTEXT) as rooms:
        yield rooms, store


@pytest.fixture
def room(mounting: tuple[Rooms, Store]) -> Room:
    return mounting[0].create("demo", "alice")


def mount(url: str, server: str = "work", **more: Any) -> Json:
    """The payload of a mount."""
    return {"serverId": server, "transport": {"kind": "http-stream", "url": url}, "exposeTools": True, **more}


@pytest.mark.process
def test_a_mount_is_listed_mirrored_called_and_unmounted(upstream: Hub, room: Room) -> None:
    """ENS-1, ENS-4, ENS-5, ENS-6, ENS-10, ENS-11, ENS-12: from `mcp.mount` to `tool.result`, as the seed says."""
    alice, carol = Person(room, "alice", caps=["mcp.client"]), Person(room, "carol", caps=["tool.call", "stream"])
    labels = {"env": "prod", "scope": "scm"}
    receipt = alice.says("mcp.mount", mount(upstream.endpoint("work"), labels=labels, exposeResources=["repo/*"]))
    assert receipt.refusal == ""
    advert = carol.waits_for("tool.advertise")["payload"]
    assert {"greet", "steps", "wait"} <= {tool["name"] for tool in advert["tools"]}
    assert room.state()["servers"]["work"]["labels"] == labels
    assert room.state()["servers"]["work"]["tools"] == advert["digests"]
    greeted = carol.calls("work", "greet", {"name": "Ada"})
    result = carol.result_of(greeted)
    assert (result["ok"], result["result"]["content"][0]["text"]) == (True, "Hello, Ada!")
    stepped = carol.calls("work", "steps", {})
    assert carol.result_of(stepped)["ok"] is True
    partials = [one.envelope["payload"] for one in carol.heard if one.envelope["type"] == "tool.partial"]
    told = [one["partial"]["message"] for one in partials if one["callId"] == stepped and "progress" in one["partial"]]
    assert told == ["step 1", "step 2", "step 3"]
    assert [one for one in carol.heard if one.is_stream and one.envelope["payload"]["streamId"] == greeted]
    wrong = carol.calls("work", "greet", {"nobody": 1})
    assert carol.result_of(wrong)["ok"] is False
    alice.says("mcp.unmount", {"serverId": "work"})
    late = carol.calls("work", "greet", {})
    assert carol.result_of(late)["error"].startswith("unknown server: work")


@pytest.mark.process
def test_text_of_a_mounted_tool_arrives_while_the_tool_runs(upstream: Hub, room: Room, tmp_path: Path) -> None:
    """34.12: the tool goes on when its first word has arrived as a stream envelope."""
    alice, carol = Person(room, "alice", caps=["mcp.client"]), Person(room, "carol", caps=["tool.call", "stream"])
    alice.says("mcp.mount", mount(upstream.endpoint("talk"), "talk"))
    carol.waits_for("tool.advertise")
    call = carol.calls("talk", "talk", {"path": str(tmp_path / "go")})
    frame = carol.waits_for("tool.stream")
    assert (frame["kind"], frame["payload"]["data"]) == ("stream", "first ")
    (tmp_path / "go").touch()
    assert carol.result_of(call)["result"]["content"][0]["text"] == "first second"
    assert [one.envelope["payload"]["data"] for one in carol.heard if one.is_stream] == ["first ", "second", ""]


@pytest.mark.process
def test_an_mcp_client_calls_a_mounted_tool_and_a_cancelled_call_ends_upstream(
    upstream: Hub, room: Room, tmp_path: Path
) -> None:
    """ENS-10, ENS-11: the events of the upstream come through; closing them cancels there."""
    alice = Person(room, "alice", caps=["mcp.client"])
    alice.says("mcp.mount", mount(upstream.endpoint("work")))
    alice.waits_for("tool.advertise")
    events = [one for one in room.call("work", "steps", {}, "zoe", 60) if not isinstance(one, Pause)]
    assert [one.message for one in events if isinstance(one, Progress)][:3] == ["step 1", "step 2", "step 3"]
    assert isinstance(events[-1], Done)
    trace = upstream.servers.parent / "trace"
    waiting = room.call("work", "wait", {"path": str(trace)}, "zoe", 60)
    assert next(one for one in waiting if isinstance(one, Progress)).progress >= 1
    waiting.close()
    error = alice.waits_for("tool.result", lambda payload: not payload["ok"])["payload"]["error"]
    assert error == "cancelled: the caller disconnected"
    until(lambda: room.state()["calls"] == {}, "the call to end")


@pytest.mark.process
def test_the_room_sees_the_intersection_of_request_manifest_and_acl(
    upstream: Hub, mounting: tuple[Rooms, Store]
) -> None:
    """ENS-15, ENS-C3: the effective set is mount request AND scope manifest AND ACL; the manifest is a blob."""
    rooms, store = mounting
    acl = [{"servers": ["work*"], "roles": ["owner"], "tools": ["greet", "wait", "ask"]}]
    room = rooms.create("scoped", "alice", {"policy": {"acl": acl}})
    alice = Person(room, "alice", caps=["mcp.client"])

    def seen(server: str, **more: Any) -> set[str]:
        alice.says("mcp.mount", mount(upstream.endpoint("work"), server, **more))
        advert = alice.waits_for("tool.advertise", lambda payload: payload["serverId"] == server)
        return {tool["name"] for tool in advert["payload"]["tools"]}

    assert seen("work-all") == {"greet", "wait", "ask"}
    assert seen("work-none", exposeTools=False) == set()
    manifest = {"tools": ["greet", "steps"]}
    assert seen("work-some", exposeTools=["gr*", "w*"], manifest=manifest) == {"greet"}
    cid = room.state()["servers"]["work-some"]["manifest"]
    assert orjson.loads(store.blobs.get(cid)) == manifest
    assert cid == cid_of(store.blobs.get(cid))
    assert cid in store.names.all("room-manifests/").values(), "a name keeps the blob"
    assert seen("work-again", manifest=cid) == {"greet"}


@pytest.mark.process
def test_resources_match_by_name_and_by_uri_without_scheme(upstream: Hub, room: Room) -> None:
    """ENS-4, ENS-C4: the patterns of `exposeResources`, against a real list."""
    alice = Person(room, "alice", caps=["mcp.client"])
    alice.says("mcp.mount", mount(upstream.endpoint("work"), "notes", exposeResources=["repo/*"]))
    advert = alice.waits_for("tool.advertise")["payload"]
    assert {one["uri"] for one in advert["resources"]} == {"git://repo/a", "git://repo/b"}
    read = [one for one in room.call("notes", "git://repo/a", {}, "zoe", 60, RESOURCE) if one is not PAUSE]
    content, done = read
    assert isinstance(content, Content)
    assert content.block["resource"]["text"] == "repo/a"
    assert isinstance(done, Done)
    [hidden] = room.call("notes", "git://other/c", {}, "zoe", 60, RESOURCE)
    assert isinstance(hidden, Failed)
    assert hidden.message.startswith("unknown resource: git://other/c")


def test_who_may_mount_is_capability_power_and_acl(mounting: tuple[Rooms, Store]) -> None:
    """ENS-1, ENS-14: `mcp.client`, the power to mount, and the rules of the mount ACL."""
    acl = [{"servers": ["git*"], "roles": ["owner"]}, {"servers": ["fs"]}]
    room = mounting[0].create("ruled", "alice", {"policy": {"acl": acl}})
    alice = Person(room, "alice", caps=["tool.call"])
    wanted = mount("http://127.0.0.1:9/mcp", "git-prod")
    assert alice.says("mcp.mount", wanted).refusal == (
        "the session lacks the capability mcp.client; add it to caps in its hello"
    )
    bob = Person(room, "bob")
    refused = bob.says("mcp.mount", wanted)
    assert refused.refusal == "the room's ACL has no rule that admits the role human to the server git-prod"
    assert [one["type"] for one in refused.answers] == ["mcp.mount.failed"]
    robot = Person(room, "carol", agent={"name": "robot"})
    assert robot.says("mcp.mount", wanted).refusal == "the role agent has no power to mount in this room"
    assert bob.says("mcp.mount", mount("http://127.0.0.1:9/mcp", "fs")).refusal == ""


def test_a_mount_that_cannot_be_reached_fails_with_a_sentence(room: Room) -> None:
    """ENS-19: `mcp.mount.failed` says why; the owner may try again."""
    alice = Person(room, "alice")
    alice.says("mcp.mount", mount("http://127.0.0.1:9/mcp", "gone"))
    failed = alice.waits_for("mcp.mount.failed")
    assert failed["payload"]["serverId"] == "gone"
    assert failed["payload"]["error"].startswith("the server cannot be reached: it does not answer")
    assert room.state()["servers"]["gone"]["status"] == "failed"
    assert alice.result_of(alice.calls("gone", "x"))["error"].startswith("unknown tool: x; the server gone is failed")
    assert alice.says("mcp.mount", mount("http://127.0.0.1:9/mcp", "gone")).refusal == ""


@pytest.mark.process
def test_credentials_are_named_and_never_in_the_room(mounting: tuple[Rooms, Store], upstream: Hub) -> None:
    """ENS-C5: credentials by reference to the operator's configuration, for the hosts that it names."""
    rooms, store = mounting
    known = {
        "acme": {
            "hosts": [upstream.url],
            "headers": {"X-Api-Key": "${ACME_TOKEN}"},
        },
        "far": {"hosts": ["mcp.acme.dev"], "headers": {}},
    }
    cid = store.blobs.put(orjson.dumps(known))
    store.names.move({f"variables/{CREDENTIALS}": cid}, "operator", "credentials for rooms")
    room = rooms.create("secrets", "alice")
    alice = Person(room, "alice")
    url = upstream.endpoint("work")
    assert alice.says("mcp.mount", mount(url, credentials="acme")).refusal == ""
    alice.waits_for("tool.advertise")
    assert b"s3cret" not in b"".join(room.lines())
    refusal = alice.says("mcp.mount", mount(url, "a", credentials="far")).refusal
    assert refusal.startswith("the credentials far are not for http://127.0.0.1:")
    assert alice.says("mcp.mount", mount(url, "b", credentials="none")).refusal == (
        "the operator has no credentials called 'none' (variable room-credentials)"
    )


def test_an_invalid_manifest_is_refused(room: Room) -> None:
    """ENS-15: a manifest is an object of patterns, or the CID of one."""
    alice = Person(room, "alice")
    url = "http://127.0.0.1:9/mcp"
    for manifest, sentence in (
        ({"tool": ["*"]}, "the manifest is not an object of tools and resources"),
        (cid_of(b"not here"), "the mount's manifest cannot be read"),
    ):
        assert alice.says("mcp.mount", mount(url, manifest=manifest)).refusal.startswith(sentence)
