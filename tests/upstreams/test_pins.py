"""Pins of a mounted server: what each setting does with a change, on the pages and for clients."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from patchbay.cid import cid_of
from patchbay.pins.approval import approve
from patchbay.pins.documents import CHANGES
from patchbay.pins.records import load_pins
from patchbay.topics import PINS
from tests.hubs import MODERN, Hub
from tests.upstreams.changing import TOOLS, control, mount, rows, served, tool, tools, waiting, without_hint
from tests.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with one mount for each setting."""
    files = {f"{name}.json": mount(name, tools(0)) for name in CHANGES}
    files["plain.json"] = mount(None, [tool(0)])
    hub = Hub(tmp_path_factory.mktemp("hub"), files).as_operator()
    until(lambda: all("t0" in served(hub, name) for name in (*CHANGES, "plain")), "the tools of all mounts")
    yield hub
    hub.close()


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
    for reference in ({"type": "ref/prompt", "name": "plan"}, {"type": "ref/resource", "uri": "page://{id}"}):
        asked = {"ref": reference, "argument": {"name": "id", "value": ""}}
        assert "params.ref names nothing" in hub.modern("hold", "completion/complete", asked).error["message"]
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


def test_only_the_operator_sees_held_entries_on_the_page_of_a_server(hub: Hub) -> None:
    control(hub, "hold", tools=[tool(0, 2)])
    until(lambda: ("tool", "t0") in hub.catalogue.find("hold").pins.held, "the held tool")
    accept = {"Accept": "text/html"}
    assert "1 entry is not served until you approve it" in hub.client.get("/servers/hold", headers=accept).text
    waits = "1 changed entry waits for your approval, and is not served until then."
    assert waits in hub.client.get("/", headers=accept).text
    assert waits not in hub.app.test_client().get("/", headers=accept).text
    stranger = hub.app.test_client().get("/servers/hold", headers=accept).text
    assert "not served until" not in stranger and "/pins/hold" not in stranger


def test_search_tools_finds_no_held_tool_and_call_tool_runs_none(hub: Hub) -> None:
    (hub.servers / "found.json").write_text(mount("hold", [tool(0)], listing={"search": True}))
    until(lambda: served(hub, "found") == {"control", "t0"}, "the tools")
    control(hub, "found", tools=[tool(0), tool(1)])
    until(lambda: waiting(hub, "found") == {("tool", "t1")}, "the held tool")
    found = hub.call("found", "search_tools", {"query": "Tool"}, MODERN).text
    assert '"t0"' in found and '"t1"' not in found
    held, absent = (hub.call("found", "call_tool", {"name": name}, MODERN) for name in ("t1", "absent"))
    assert held.result["isError"] and without_hint(held.body, "t1", "found") == without_hint(absent.body, "t1", "found")
    assert hub.call("found", "call_tool", {"name": "t0"}, MODERN).text == "ran t0"
