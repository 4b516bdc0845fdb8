"""Links in and out: names, boot images, configurations and contents that mention a CID."""

from __future__ import annotations

from patchbay.boot import canonical_json, change_names
from patchbay.catalogue.contents.links import Links
from patchbay.cid import cid_of
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore


def plugged(store: Store, name: str, source: bytes, config: bytes | None = None) -> str:
    parts = {"definition_cid": store.blobs.put(source), "enabled": True, "kind": "python"}
    if config is not None:
        parts["config_cid"] = store.blobs.put(config)
    row = store.blobs.put(canonical_json(parts))
    return change_names(store, {f"servers/{name}": row}, "test", f"plug in {name}")


def test_a_definition_is_pointed_at_by_its_row_and_the_root() -> None:
    store = MemoryStore()
    root = plugged(store, "a", b"x = 1\n")
    found = Links(store).incoming(cid_of(b"x = 1\n"))
    assert {(each.kind, each.label, each.place) for each in found} == {
        ("content", "servers/a", "definition_cid"),
        ("content", "root", "servers[a].definition_cid"),
    }
    assert root in {each.cid for each in found}


def test_a_content_deep_in_a_configuration_is_found() -> None:
    store = MemoryStore()
    page = store.blobs.put(b"a page")
    config = canonical_json({"resources": {"r": {"uri": "x:y", "cid": page}}})
    plugged(store, "a", b"x = 1\n", config)
    found = Links(store).incoming(page)
    assert [(each.label, each.place, each.cid) for each in found] == [
        ("in servers/a", "resources.r.cid", cid_of(config))
    ]


def test_present_and_past_names_are_distinguished() -> None:
    store = MemoryStore()
    first, second = store.blobs.put(b"one"), store.blobs.put(b"two")
    for cid in (first, second):
        change_names(store, {"variables/v": cid}, "test", "why")
    links = Links(store)
    assert [(each.kind, each.label) for each in links.incoming(second)] == [("name", "variables/v")]
    past = links.incoming(first)
    assert [(each.kind, each.label) for each in past] == [("past", "variables/v")]
    assert past[0].at is not None


def test_outgoing_links_have_a_place_and_their_presence() -> None:
    store = MemoryStore()
    here, absent = store.blobs.put(b"here"), cid_of(b"absent")
    text = store.blobs.put(f"see\n{here} and {absent}, and {here} again".encode())
    json = store.blobs.put(canonical_json([{"name": "n", "cid": here}, {"x": [absent]}]))
    links = Links(store)
    assert [(each.cid, each.place, each.here) for each in links.outgoing(text, store.blobs.get(text))] == [
        (here, "line 2", True),
        (absent, "line 2", False),
    ]
    assert [(each.place, each.here) for each in links.outgoing(json, store.blobs.get(json))] == [
        ("[n].cid", True),
        ("[1].x[0]", False),
    ]


def test_contents_that_mention_each_other_end_and_bytes_mention_nothing() -> None:
    store = MemoryStore()
    loop = store.blobs.put(b"\xff" + cid_of(b"other").encode())
    change_names(store, {"variables/v": store.blobs.put(f"{loop} {loop}".encode())}, "test", "why")
    links = Links(store)
    assert [each.label for each in links.incoming(loop)] == ["variables/v", "root"]
    assert [each.cid for each in links.outgoing(loop, store.blobs.get(loop))] == [cid_of(b"other")]
    assert links.incoming(cid_of(b"nobody")) == []


def test_json_that_nests_too_deeply_is_looked_through_by_lines() -> None:
    store = MemoryStore()
    inner = store.blobs.put(b"inner")
    outer = store.blobs.put(b"[" * 1000 + f'"{inner}"'.encode() + b"]" * 1000)
    assert [(one.cid, one.place) for one in Links(store).outgoing(outer, store.blobs.get(outer))] == [(inner, "line 1")]
