"""Pins of a mounted server: a changed tool is nowhere until it is approved, on every way to the hub."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.cid import cid_of
from patchbay.pins.approval import approve
from patchbay.pins.documents import Changes, ItemKey, PinDocument
from patchbay.pins.records import load_pins
from patchbay.topics import PINNED, PINS
from tests.hubs import MODERN, Hub
from tests.pins.independent_digests import digest_of
from tests.waiting import until

pytestmark = pytest.mark.process

SERVER = Path(__file__).with_name("changing_server.py")
TOOLS, ROUNDS = 25, 8
HINT = re.compile(rb"; did you mean [^?]*\?")


def mount(changes: Changes | None, tools: list[dict[str, Any]] | None = None) -> str:
    """The definition of a mount of the changing server."""
    address = f"mcp+stdio:{shlex.join([sys.executable, '-S', str(SERVER), json.dumps(tools or [])])}"
    fields = {"kind": "upstream", "address": address, "era": "legacy"}
    return json.dumps(fields | ({"changes": changes} if changes else {}))


def tool(number: int, stage: int = 0) -> dict[str, Any]:
    """One tool at one stage: each stage changes another part of it."""
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    made: dict[str, Any] = {"name": f"t{number}", "description": f"Tool {number}.", "inputSchema": schema}
    for change in range(1, stage + 1):
        match (change + number) % 8:
            case 0:
                made["description"] += f" Then do step {change}."
            case 1:
                made["description"] += "\u200b" * change
            case 2:
                made["inputSchema"] = {**schema, "required": ["text"], "title": f"{change}"}
            case 3:
                made["annotations"] = {"readOnlyHint": True, "title": f"{change}"}
            case 4:
                made["name"] += f"_{change}"
            case 5:
                made["outputSchema"] = {"type": "object", "title": f"{change}"}
            case 6:
                made["icons"] = [{"src": f"https://far.example/{change}.png"}]
            case 7:
                made["title"] = f"Tool \u202e{change}"
    return made


def tools(stage: int) -> list[dict[str, Any]]:
    return [tool(number, stage) for number in range(TOOLS)]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with one mount for each setting."""
    files = {f"{name}.json": mount(name, tools(0)) for name in ("hold", "tell", "follow")}  # type: ignore[arg-type]
    files["plain.json"] = mount(None, [tool(0)])
    hub = Hub(tmp_path_factory.mktemp("hub"), files).as_operator()
    for name in ("hold", "tell", "follow", "plain"):
        until(lambda name=name: "t0" in hub.catalogue.find(name).tools, f"the tools of {name}")
    yield hub
    hub.close()


def control(hub: Hub, server: str, **lists: Any) -> None:
    """Change the lists of a mounted server."""
    assert hub.call(server, "control", lists).text == "ran control"


def document(hub: Hub, server: str) -> PinDocument:
    found = load_pins(hub.catalogue.store, server).document
    assert found is not None
    return found


def waiting(hub: Hub, server: str) -> set[ItemKey]:
    return set(document(hub, server).waiting)


def listed(hub: Hub, server: str, path: str | None = None) -> list[dict[str, Any]]:
    """Every tool of a list, all pages."""
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        result = hub.modern(server if path is None else path, "tools/list", params).result
        found += result["tools"]
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


def rows(hub: Hub, server: str, name: str) -> list[tuple[str | None, str, str]]:
    moves = hub.catalogue.store.names.past(f"{PINNED}{server}/tool/{name}")
    return [(move.cid, move.who, move.why) for move in moves]


def without_hint(body: bytes, name: str) -> bytes:
    """An answer without the similar names that it suggests, which never contain the name that was asked for."""
    hint = re.findall(r"\w+", b"".join(HINT.findall(body)).decode())
    assert f"hold__{name}" not in hint and name not in hint
    return HINT.sub(b"", body).replace(name.encode(), b"absent")


def as_absent(hub: Hub, server: str, name: str) -> None:
    """A held tool answers as a tool that is not there, on every way to the hub."""
    for version in ("2025-11-25", MODERN):
        for endpoint, prefix in ((server, ""), ("", f"{server}__")):
            held = hub.call(endpoint, prefix + name, {}, version)
            absent = hub.call(endpoint, prefix + "absent", {}, version)
            assert held.status == absent.status
            assert without_hint(held.body, name) == without_hint(absent.body, name)
    for method in ("get", "post"):
        held, absent = (getattr(hub.client, method)(f"/{server}/{each}") for each in (name, "absent"))
        assert held.status_code == absent.status_code
        assert without_hint(held.data, name) == without_hint(absent.data, name)
    assert f'"{name}"' not in hub.client.get(f"/mcp/meta/{server}.json").text
    found = orjson.loads(hub.client.get(f"/search.json?q={name}").data)
    assert not [row for row in found if row["server"] == server and row["name"] == name]


def test_two_hundred_changes_are_served_only_after_their_approval(hub: Hub) -> None:
    """Issue 16, rug pull: descriptions, names, schemas, annotations, invisible characters; a row for each; digests."""
    store = hub.catalogue.store
    for stage in range(1, ROUNDS + 1):
        changed = tools(stage)
        names = {one["name"] for one in changed}
        control(hub, "hold", tools=changed)
        until(lambda keys={("tool", name) for name in names}: waiting(hub, "hold") == keys, "the changes")
        until(lambda: set(hub.catalogue.find("hold").tools) == {"control"}, "the changed tools to go")
        assert [one["name"] for one in listed(hub, "hold")] == ["control"]
        assert not [one for one in listed(hub, "") if one["name"].startswith("hold__t")]
        as_absent(hub, "hold", changed[stage]["name"])
        pins = document(hub, "hold")
        for one in changed:
            seen = pins.items["tool", one["name"]].seen
            assert seen is not None and seen.digest == digest_of(one)
            cid, who, why = rows(hub, "hold", one["name"])[0]
            assert (cid, who) == (seen.cid, "upstream") and "held until it is approved" in why
        approve(store, "hold", "ann@example.org")
        until(lambda names=names: set(hub.catalogue.find("hold").tools) == {"control", *names}, "the approved tools")
        shown = {one["name"]: one for one in listed(hub, "hold")}
        assert all(shown[one["name"]].items() >= one.items() for one in changed)
        move = store.names.past(PINS + "hold", 1)[0]
        assert move.who == "ann@example.org" and move.why.startswith("approve tool ")
        assert hub.call("hold", changed[0]["name"], {}).text == f"ran {changed[0]['name']}"


def test_a_reported_change_is_served_and_marked_on_the_page(hub: Hub) -> None:
    changed = [tool(number, 1) for number in range(TOOLS)]
    control(hub, "tell", tools=changed)
    names = {one["name"] for one in changed}
    until(lambda: set(hub.catalogue.find("tell").tools) == {"control", *names}, "the changed tools")
    until(lambda: hub.catalogue.find("tell").pins.reported == {("tool", name) for name in names}, "the marks")
    assert hub.call("tell", changed[0]["name"], {}).text == f"ran {changed[0]['name']}"
    page = hub.client.get("/servers/tell", headers={"Accept": "text/html"}).text
    assert "This server changed since it was approved." in page and 'href="/pins/tell"' in page
    assert "served, not approved" in hub.client.get("/history", headers={"Accept": "text/html"}).text
    assert rows(hub, "tell", "t0")[0][1] == "upstream"


def test_follow_serves_what_the_server_lists(hub: Hub) -> None:
    control(hub, "follow", tools=tools(3))
    names = {one["name"] for one in tools(3)}
    until(lambda: set(hub.catalogue.find("follow").tools) == {"control", *names}, "the changed tools")
    assert waiting(hub, "follow") == set() and hub.catalogue.find("follow").pins.reported == set()


def test_a_mount_without_the_setting_has_the_default_of_the_hub(hub: Hub) -> None:
    assert hub.catalogue.find("plain").pins.changes == "tell"


def test_prompts_and_templates_are_held_and_resources_are_not_pinned(hub: Hub) -> None:
    prompt = {"name": "plan", "description": "Plan."}
    template = {"uriTemplate": "page://{id}", "name": "page"}
    control(hub, "hold", prompts=[prompt], templates=[template])
    until(lambda: {("prompt", "plan"), ("template", "page://{id}")} <= waiting(hub, "hold"), "the new entries")
    assert hub.modern("hold", "prompts/list", {}).result["prompts"] == []
    held = hub.modern("hold", "prompts/get", {"name": "plan"})
    absent = hub.modern("hold", "prompts/get", {"name": "absent"})
    assert held.status == absent.status
    assert orjson.dumps(held.error).replace(b"plan", b"absent") == orjson.dumps(absent.error)
    approve(hub.catalogue.store, "hold", "operator", keys=[("prompt", "plan"), ("template", "page://{id}")])
    until(lambda: "plan" in hub.catalogue.find("hold").prompts, "the approved prompt")
    assert "page://{id}" in hub.catalogue.find("hold").templates


def test_a_damaged_document_holds_what_changed_until_an_approval(hub: Hub) -> None:
    """N4: what cannot be read changes nothing and loosens nothing."""
    store = hub.catalogue.store
    control(hub, "plain", tools=[tool(0), tool(1)])
    until(lambda: "t1" in hub.catalogue.find("plain").tools, "the reported tool")
    store.names.move({PINS + "plain": store.blobs.put(b"damage")}, "somebody", "damage")
    hub.catalogue.refresh()
    server = hub.catalogue.find("plain")
    assert set(server.tools) == {"control", "t0"} and "cannot be read" in server.pins.problem
    assert "The pins are damaged." in hub.client.get("/pins/plain", headers={"Accept": "text/html"}).text
    approve(
        store,
        "plain",
        "operator",
        keys=[("tool", "t1")],
        digest=cid_of(orjson.dumps(tool(1), option=orjson.OPT_SORT_KEYS)),
    )
    hub.catalogue.refresh()
    assert set(hub.catalogue.find("plain").tools) == {"control", "t0", "t1"}


def test_a_call_of_an_older_version_changes_no_pins(hub: Hub) -> None:
    """An older version has a connection of its own, which lists what the server listed before its change."""
    file = hub.servers / "older.json"
    file.write_text(mount("hold", [tool(0)]))
    until(lambda: served(hub, "older") == {"control", "t0"}, "the first version")
    version = hub.catalogue.find("older").version
    file.write_text(mount("hold", [tool(0), tool(1)]))
    until(lambda: waiting(hub, "older") == {("tool", "t1")}, "the second version")
    approve(hub.catalogue.store, "older", "operator")
    until(lambda: served(hub, "older") == {"control", "t0", "t1"}, "the approved tool")
    pins = load_pins(hub.catalogue.store, "older").cid
    assert hub.call(f"older@{version}", "t0", {}).text == "ran t0"
    assert set(hub.catalogue.pinned("older", version).tools) == {"control", "t0"}
    assert load_pins(hub.catalogue.store, "older").cid == pins


def served(hub: Hub, server: str) -> set[str]:
    return {name for one in hub.catalogue.all() if one.name == server for name in one.tools}
