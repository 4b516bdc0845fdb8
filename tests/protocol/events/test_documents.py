"""The events of a folder of documents: added, changed and removed, for those who may read the document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.protocol.events.test_emitting import poll, stream_of
from tests.waiting import until

CHANGED = "document.changed"


def config(root: Path) -> str:
    return json.dumps({"kind": "documents", "root": str(root)})


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "old.md").write_text("# Old\n")
    return folder


@pytest.fixture
def hub(tmp_path: Path, texts: Path) -> Iterator[Hub]:
    one = Hub(tmp_path, {"library.json": config(texts)})
    until(lambda: newest(one), "the first scan")
    yield one
    one.close()


def newest(hub: Hub) -> int:
    """The number of the newest entry of the folder's events: its first one is the mark of the first scan."""
    return int(hub.catalogue.store.journal.last(f"events/library/{CHANGED}"))


def changes(hub: Hub, cursor: str, count: int) -> list[dict[str, Any]]:
    """The data of this many events behind a cursor."""
    until(lambda: len(poll(hub, cursor, "library", CHANGED)["events"]) >= count, f"{count} events")
    return [one["data"] for one in poll(hub, cursor, "library", CHANGED)["events"]]


def test_a_document_that_is_added_changed_or_removed_is_an_event(hub: Hub, texts: Path) -> None:
    """37.1"""
    cursor = poll(hub, None, "library", CHANGED)["cursor"]
    (texts / "new.md").write_text("# New\n")
    (added,) = changes(hub, cursor, 1)
    assert (added["how"], added["path"], added["uri"]) == ("added", "new.md", "docs://library/new.md")
    assert added["title"] == "New" and added["cid"].startswith("baf")
    (texts / "old.md").write_text("# Older\n")
    assert changes(hub, cursor, 2)[1] | {"cid": ""} == {
        **{"how": "changed", "path": "old.md", "uri": "docs://library/old.md", "title": "Older", "cid": ""}
    }
    (texts / "new.md").unlink()
    assert changes(hub, cursor, 3)[2] == {"how": "removed", "path": "new.md", "uri": "docs://library/new.md"}
    only = poll(hub, cursor, "library", CHANGED, arguments={"how": "removed"})["events"]
    assert [one["data"]["path"] for one in only] == ["new.md"]


def test_a_stream_tells_of_a_document_at_once(hub: Hub, texts: Path) -> None:
    """37.1"""
    stream = stream_of(hub, "library", CHANGED)
    assert next(stream)["method"] == "notifications/events/active"
    (texts / "new.md").write_text("# New\n")
    told = next(one for one in stream if one["method"] == "notifications/events/event")
    assert told["params"]["data"]["path"] == "new.md"
    stream.close()


def test_two_processes_that_watch_a_folder_store_each_change_once(tmp_path: Path, texts: Path) -> None:
    """37.1"""
    hubs = [Hub(tmp_path, {"library.json": config(texts)}, store="sqlite") for _ in range(2)]
    try:
        for one in hubs:
            until(partial(newest, one), "the first scans")
            one.call("library", "list_documents", {})
        marks = len(hubs[0].catalogue.store.journal.read(f"events/library/{CHANGED}"))
        cursor = poll(hubs[0], None, "library", CHANGED)["cursor"]
        for number in range(5):
            (texts / f"{number}.md").write_text(f"# {number}\n")
        found = changes(hubs[1], cursor, 5)
        for one in hubs:
            one.catalogue.hub.find_kept("library").refresh()
        assert marks >= 1 and sorted(one["path"] for one in found) == [f"{number}.md" for number in range(5)]
    finally:
        for one in hubs:
            one.close()
    again = Hub(tmp_path, {}, store="sqlite")
    try:
        os.utime(texts / "0.md")
        until(lambda: poll(again, cursor, "library", CHANGED)["truncated"], "the mark of a new process")
        events = poll(again, cursor, "library", CHANGED)["events"]
        assert sorted(one["data"]["path"] for one in events) == [f"{number}.md" for number in range(5)]
    finally:
        again.close()


def test_a_document_that_a_reader_may_not_read_is_no_event_for_it(tmp_path: Path, texts: Path) -> None:
    """37.1"""
    hub = team_hub(tmp_path)
    try:
        (hub.servers / "library.json").write_text(config(texts))
        hub.catalogue.read_folder()
        hub.catalogue.refresh()
        set_grants(
            hub,
            {
                "grants": [{"to": ["key:ann"], "may": ["see", "read"], "on": ["library"]}],
                "denials": [{"to": ["key:ann"], "on": ["library.docs://library/secret/*"]}],
            },
        )
        ann = new_key(hub, "ann")
        until(lambda: newest(hub), "the first scan")
        begin = asked(hub, ann, None)["cursor"]
        (texts / "secret").mkdir()
        (texts / "secret" / "plan.md").write_text("# Plan\n")
        operator = {"Authorization": f"Bearer {hub.token}"}
        until(lambda: asked(hub, operator, begin)["events"], "the hidden document")
        (texts / "open.md").write_text("# Open\n")
        until(lambda: asked(hub, ann, begin)["events"], "the open document")
        assert [one["data"]["path"] for one in asked(hub, ann, begin)["events"]] == ["open.md"]
    finally:
        hub.close()


def asked(hub: Hub, headers: dict[str, str], cursor: str | None) -> Any:
    params = {"name": CHANGED, "cursor": cursor}
    return hub.modern("library", "events/poll", params, headers=headers).result
