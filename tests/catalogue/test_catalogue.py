"""The catalogue: find, pin, announce changes, several processes on one store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchbay.boot import canonical_json, change_names, import_image
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.planning import Refusal
from patchbay.catalogue.servers.rows import RESERVED, ServerRow, name_problem
from patchbay.catalogue.servers.server import Server
from patchbay.cid import cid_of
from patchbay.errors import UnavailableServer, UnknownServer
from patchbay.stores import open_store

HELLO = 'def hello(name: str = "you") -> str:\n    """Says hello."""\n    return "Hello, " + name\n'
WAVE = 'def wave() -> str:\n    """Waves."""\n    return "o/"\n'
Until = Callable[[Callable[[], Any]], Any]


def wires(server: Any) -> bytes:
    groups = (server.tools, server.resources, server.templates, server.prompts)
    return canonical_json([[dict(one.wire) for one in group.values()] for group in groups])


def changes(bench: Any, name: str) -> list[Any]:
    return [json.loads(entry.data)["kinds"] for entry in bench.store.journal.read(f"changes/{name}")]


def test_a_server_is_found_by_its_name(bench: Any) -> None:
    """VWR-1"""
    bench.plug("hello", HELLO)
    assert list(bench.open().find("hello").tools) == ["hello"]


def test_all_servers_and_the_served_ones_change_at_one_moment(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that sees a change in the list of all servers calls the new version."""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    seen: list[bool] = []

    class Observed(Server):
        def __getattribute__(self, name: str) -> Any:
            if name == "enabled":
                seen.append(catalogue.find_any("hello") is catalogue.served["hello"])
            return super().__getattribute__(name)

    def build(rows: Sequence[ServerRow | Refusal]) -> dict[str, Server]:
        return {name: Observed(**{one.name: getattr(built, one.name) for one in fields(built) if one.init})}

    name, built = "hello", catalogue.find("hello")
    monkeypatch.setattr(catalogue, "_build_all", build)
    catalogue.rebuild("hello")
    assert isinstance(catalogue.find("hello"), Observed)
    assert seen and all(seen)


@pytest.mark.parametrize("way", ["rebuild", "refresh"])
def test_a_server_whose_build_ended_in_an_error_is_built_by_the_next_poll(
    bench: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    before = catalogue.find("hello")

    def fail(*_: object) -> None:
        raise ValueError("an error of the hub")

    with monkeypatch.context() as patched:
        patched.setattr(catalogue._composer, "compose", fail)
        if way == "refresh":
            bench.plug("hello", HELLO.replace("def hello", "def hi"))
        with pytest.raises(ValueError, match="an error of the hub"):
            catalogue.rebuild("hello") if way == "rebuild" else catalogue.catch_up()
    assert catalogue.find("hello") is before
    catalogue.catch_up()
    assert catalogue.find("hello") is not before


def test_an_unknown_name_is_refused_with_similar_names(bench: Any) -> None:
    """T4.3, T12.6, V-C2"""
    bench.plug("hello", HELLO)
    with pytest.raises(UnknownServer, match="did you mean hello"):
        bench.open().find("helo")


@pytest.mark.parametrize("name", ["../hello", "<script>", "", "hello/../x", "h" * 5000])
def test_a_strange_name_is_an_unknown_server(bench: Any, name: str) -> None:
    """T14.1"""
    bench.plug("hello", HELLO)
    with pytest.raises(UnknownServer):
        bench.open().find(name)


def test_a_disabled_server_is_not_available_and_still_shown(bench: Any) -> None:
    """T5.6, T14.3"""
    bench.plug("hello", HELLO, enabled=False)
    catalogue = bench.open()
    with pytest.raises(UnavailableServer, match="it is disabled"):
        catalogue.find("hello")
    assert [one.name for one in catalogue.all()] == ["hello"]


def test_a_broken_server_gives_the_reason(bench: Any) -> None:
    """T1.8"""
    bench.plug("hello", "def (")
    with pytest.raises(UnavailableServer, match="line 1"):
        bench.open().find("hello")


def test_the_version_is_the_cid_of_its_manifest(bench: Any) -> None:
    cid = bench.plug("hello", HELLO)
    server = bench.open().find("hello")
    manifest = {"config_cid": None, "definition_cid": cid, "kind": "python", "name": "hello"}
    assert server.version == cid_of(canonical_json(manifest))
    assert bench.store.names.get("served/hello") == server.version
    assert json.loads(bench.store.blobs.get(server.version)) == manifest


def test_a_change_makes_a_new_server_and_leaves_others_as_they_are(bench: Any) -> None:
    bench.plug("hello", HELLO)
    bench.plug("wave", WAVE)
    catalogue = bench.open()
    old, other = catalogue.find("hello"), catalogue.find("wave")
    bench.plug("hello", WAVE)
    catalogue.refresh()
    assert catalogue.find("hello").version != old.version
    assert catalogue.find("wave") is other


def test_refreshing_without_a_change_builds_nothing(bench: Any) -> None:
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    server, last = catalogue.find("hello"), bench.store.names.past("", 1)
    catalogue.refresh()
    assert catalogue.find("hello") is server
    assert bench.store.names.past("", 1) == last


@pytest.mark.parametrize("what", ["version", "definition"])
def test_a_pinned_server_stays_as_it_was_byte_for_byte(bench: Any, what: str) -> None:
    """Also after the name has moved."""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    server = catalogue.find("hello")
    cid, before = getattr(server, what), wires(server)
    bench.plug("hello", WAVE)
    catalogue.refresh()
    pinned = catalogue.pinned("hello", cid)
    assert wires(pinned) == before
    assert wires(catalogue.find("hello")) != before
    assert pinned.pinned
    assert pinned is catalogue.pinned("hello", cid)


def test_a_cid_that_the_name_has_not_had_cannot_be_pinned(bench: Any) -> None:
    """Knowing a CID gives no permission."""
    bench.plug("hello", HELLO)
    other = bench.plug("wave", WAVE)
    catalogue = bench.open()
    for cid in (other, catalogue.find("wave").version, cid_of(b"never"), "nonsense"):
        with pytest.raises(UnknownServer, match="never had"):
            catalogue.pinned("hello", cid)
    with pytest.raises(UnknownServer):
        catalogue.pinned("nobody", other)


def test_a_disabled_server_is_not_reachable_by_a_pin(bench: Any) -> None:
    """T14.3"""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    version = catalogue.find("hello").version
    bench.plug("hello", HELLO, enabled=False)
    catalogue.refresh()
    with pytest.raises(UnavailableServer, match="disabled"):
        catalogue.pinned("hello", version)


def test_a_removed_server_keeps_its_pins_for_the_operator(bench: Any) -> None:
    """Also for a hub that is started later."""
    definition = bench.plug("hello", HELLO)
    catalogue = bench.open()
    server = catalogue.find("hello")
    bench.change({"servers/hello": None})
    catalogue.refresh()
    for hub in (catalogue, bench.open()):
        with pytest.raises(UnknownServer, match="there is no server"):
            hub.find("hello")
        assert wires(hub.pinned("hello", definition, operator=True)) == wires(server)
        for cid, operator in ((cid_of(b"never"), True), (definition, False)):
            with pytest.raises(UnknownServer, match="never had"):
                hub.pinned("hello", cid, operator)


@pytest.mark.parametrize("config", [None, {"enabled": False}])
def test_a_server_that_was_disabled_when_it_was_withdrawn_has_no_pins(bench: Any, config: Any) -> None:
    """T14.3"""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    version = catalogue.find("hello").version
    bench.plug("hello", HELLO, enabled=config is not None, config=config)
    catalogue.refresh()
    bench.change({"servers/hello": None})
    catalogue.refresh()
    with pytest.raises(UnavailableServer, match="disabled"):
        catalogue.pinned("hello", version, operator=True)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused_with_a_sentence(bench: Any, name: str) -> None:
    bench.plug(name, HELLO)
    assert "a page of its own" in (bench.server(name).broken or "")
    assert "a page of its own" in (name_problem(name.upper()) or "")


def test_the_name_mcp_belongs_to_the_boot_image(bench: Any) -> None:
    bench.plug("mcp", HELLO)
    bench.drop("mcp.py", WAVE)
    bench.drop("MCP.sh", "echo")
    catalogue = bench.open(watch=True)
    catalogue.start()
    assert list(catalogue.find("mcp").tools) == ["hello"]
    for file in ("mcp.py", "MCP.sh"):
        assert "the hub ships with a server of this name" in catalogue.refused[file]


def test_names_that_differ_by_case_alone_do_not_both_serve(bench: Any) -> None:
    bench.plug("Hello", HELLO)
    bench.plug("hello", HELLO)
    assert bench.server("Hello").broken is None
    assert "by case alone" in (bench.server("hello").broken or "")


def test_the_mcps_variable_may_hold_a_cid(bench: Any) -> None:
    """T1.3, V-F2, T10.2"""
    bench.plug("hello", HELLO)
    mcps = bench.keep({"hello": {"config_cid": bench.keep({"title": "Through two CIDs"})}})
    bench.change({"variables/mcps": bench.keep(mcps)})
    assert bench.server("hello").title == "Through two CIDs"


def test_a_broken_mcps_variable_without_an_earlier_one_counts_as_empty_and_is_logged(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """T1.4"""
    bench.plug("hello", HELLO)
    bench.store.names.move({"variables/mcps": bench.keep("{")}, "an older hub", "broken")
    with caplog.at_level(logging.WARNING):
        catalogue = bench.open()
    assert "expected JSON" in (catalogue.mcps_problem or "")
    assert "the variable variables/mcps cannot be used: variables/mcps: expected JSON" in caplog.text
    assert list(catalogue.find("hello").tools) == ["hello"]


def test_servers_and_transforms_of_a_boot_image_load(bench: Any) -> None:
    """T10.2, T10.5"""
    transform = bench.keep(
        "def generate_tools(server_name, context):\n    return [{'name': 't', 'function': 'hello'}]\n"
    )
    config = bench.keep({"tools_transform_cid": transform})
    image = {
        "version": 1,
        "readonly": False,
        "servers": [{"name": "hello", "definition_cid": bench.keep(HELLO), "kind": "python", "enabled": True}],
        "variables": [
            {"name": "mcps", "definition": bench.keep({"hello": {"config_cid": config}}), "enabled": True},
        ],
        "templates": [],
    }
    import_image(bench.store, canonical_json(image), "test image", "test", "boot")
    assert list(bench.open().find("hello").tools) == ["t"]


def test_a_read_only_hub_offers_only_read_only_tools(bench: Any) -> None:
    """V-F18, T10.4"""
    hello = bench.keep(HELLO + WAVE)
    config = bench.keep(
        {"auto_discover": True, "tools": {"hello": {"description": "h", "annotations": {"readOnlyHint": True}}}}
    )
    row = {"name": "hello", "definition_cid": hello, "config_cid": config, "kind": "python", "enabled": True}
    image = {"version": 1, "readonly": True, "servers": [row], "variables": [], "templates": []}
    import_image(bench.store, canonical_json(image), "test image", "test", "boot")
    bench.drop("extra.py", WAVE)
    catalogue = bench.open(watch=True)
    catalogue.start()
    assert catalogue.readonly
    assert list(catalogue.find("hello").tools) == ["hello"]
    assert [one.name for one in catalogue.all()] == ["hello"]


def test_a_change_is_announced_once_with_the_lists_that_differ(bench: Any, until: Until) -> None:
    """VWR-31, T9.8: late subscribers read the journal"""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    catalogue.start()
    before = len(changes(bench, "hello"))
    with bench.store.bus.subscribe(["changed/hello"]) as mailbox:
        prompt = {"greet": {"messages": [{"content": "hi"}]}}
        bench.configure("hello", {"auto_discover": True, "prompts": prompt})
        topic, message = until(lambda: mailbox.get(0.1))
    assert topic == "changed/hello"
    assert json.loads(message) == {"kinds": ["prompts"], "seq": bench.store.journal.last("changes/hello")}
    assert changes(bench, "hello")[before:] == [["prompts"]]


def test_disabling_a_server_is_announced_as_a_change_of_its_lists(bench: Any) -> None:
    """VWR-31"""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    bench.plug("hello", HELLO, enabled=False)
    catalogue.refresh()
    assert changes(bench, "hello") == [["tools"], ["tools"]]


def test_a_change_that_clients_do_not_see_is_not_announced(bench: Any) -> None:
    """VWR-31"""
    bench.plug("hello", HELLO)
    catalogue = bench.open()
    bench.plug("hello", HELLO + "# a comment\n")
    catalogue.refresh()
    assert changes(bench, "hello") == [["tools"]]


def test_a_transform_runs_again_when_its_server_announces_a_change(bench: Any, until: Until) -> None:
    """`context.changed`"""
    transform = bench.keep(
        "def generate_tools(server_name, context):\n"
        "    return [{'name': name, 'function': 'hello'} for name in context.state.get('names', ['one'])]\n"
    )
    bench.plug("hello", HELLO, config={"tools_transform_cid": transform})
    first, second = bench.open(), bench.open()
    first.start()
    second.start()
    assert list(first.find("hello").tools) == ["one"]
    first.hub.state("hello")["names"] = ["one", "two"]
    first.hub.changed("hello", "tools")
    until(lambda: list(first.find("hello").tools) == list(second.find("hello").tools) == ["one", "two"])
    until(lambda: len(changes(bench, "hello")) == 2)


def has_tool(catalogue: Catalogue, tool: str) -> bool:
    return tool in {name for server in catalogue.all() for name in server.tools}


def test_two_catalogues_on_one_database_see_each_others_changes(bench: Any, until: Until, tmp_path: Path) -> None:
    stores = [open_store("sqlite", tmp_path / "db") for _ in range(2)]
    try:
        catalogues = [bench.open(store) for store in stores]
        for catalogue in catalogues:
            catalogue.start()
        for source, tool in ((HELLO, "hello"), (WAVE, "wave")):
            definition = stores[0].blobs.put(source.encode())
            row = stores[0].blobs.put(canonical_json({"definition_cid": definition, "kind": "python", "enabled": True}))
            change_names(stores[0], {"servers/hi": row}, "test", "test")
            for catalogue in catalogues:
                until(partial(has_tool, catalogue, tool))

        def entries() -> list[Any]:
            return [json.loads(entry.data)["kinds"] for entry in stores[1].journal.read("changes/hi")]

        until(lambda: entries() == [["tools"], ["tools"]])  # written a moment after it is served
        assert catalogues[0].find("hi").version == catalogues[1].find("hi").version
    finally:
        for catalogue in bench.opened:
            catalogue.close()
        for store in stores:
            store.close()


def test_expired_journal_entries_are_removed_under_constant_messages(
    bench: Any, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that announces changes all the time does not prevent the removal of expired entries."""
    monkeypatch.setattr("patchbay.catalogue.upkeep.regular_work.SWEEP_SECONDS", 0.0)
    catalogue = bench.open()
    catalogue.start()
    bench.store.journal.append("over", b"", 0.0)

    def swept() -> bool:
        bench.store.bus.publish("rerun/none", b"somebody tools")
        return not bench.store.journal.read("over")

    until(swept)


def test_a_server_that_failed_to_build_is_built_the_next_time(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """T1.8: a fault of the hub itself, for one server or for a moment, leaves the others as they are."""
    catalogue = bench.open()
    bench.plug("hello", HELLO)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="out of luck"):

        def fails(*given: Any, **more: Any) -> Any:
            raise RuntimeError("out of luck")

        patch.setattr("patchbay.catalogue.catalogue.build_server", fails)
        catalogue.refresh()
    catalogue.refresh()
    assert list(catalogue.find("hello").tools) == ["hello"]
