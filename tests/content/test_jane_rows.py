"""Rows of Jane's document, each shown whole: filters, creating, updating, retrieving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.content.test_jane import done, hub
from tests.hubs import Hub

__all__ = ["hub"]

AT = {"type": "spec", "project": "hub", "path": "a/rooms.md"}


def read_files(library: Path) -> dict[str, bytes]:
    """Every file of both shelves with its bytes; a file that a write left half done is one of them."""
    files = [path for shelf in ("specs", "stdlib") for path in (library / shelf).rglob("*") if path.is_file()]
    return {path.relative_to(library).as_posix(): path.read_bytes() for path in files}


def test_each_filter_of_a_search_holds_alone_and_together(hub: Hub) -> None:
    """JANE-8: the whole row: content or metadata; type, language, project, several of them; includeContent."""
    done(hub, "create_document", {**AT, "title": "Rooms", "content": "about zucchini\n", "description": "hopper"})
    done(hub, "create_document", {**AT, "project": "other", "title": "Zucchini", "content": "none\n"})
    library = {"type": "stdlib", "language": "python", "path": "c.md"}
    done(hub, "create_document", {**library, "title": "C", "content": "none\n", "tags": ["zucchini"]})

    def found(**arguments: Any) -> set[str]:
        return {one["uri"] for one in done(hub, "search", arguments)["results"]}

    hub_one, other, python = "spec://hub/a/rooms.md", "spec://other/a/rooms.md", "stdlib://python/c.md"
    assert found(query="zucchini") == {hub_one, other, python}
    assert found(query="hopper") == {hub_one}
    assert found(query="zucchini", type="spec") == {hub_one, other}
    assert found(query="zucchini", type="stdlib") == found(query="zucchini", language="python") == {python}
    assert found(query="zucchini", project="other") == found(query="zucchini", type="spec", project="other") == {other}
    assert found(query="zucchini", type="stdlib", language="python") == {python}
    assert found(query="zucchini", type="stdlib", project="hub") == set()
    (whole,) = done(hub, "search", {"query": "hopper", "includeContent": True})["results"]
    (bare,) = done(hub, "search", {"query": "hopper"})["results"]
    assert whole["content"] == "about zucchini\n" and "content" not in bare


def test_a_document_is_created_with_front_matter_and_found(hub: Hub, tmp_path: Path) -> None:
    """JANE-9: the whole row: every field, the group that a type needs, the front matter in the file, the index."""
    fields = {"title": "Rooms", "description": "Where people meet", "author": "ann", "tags": ["a", "b"]}
    for place, file in (
        (AT, "specs/hub/a/rooms.md"),
        ({"type": "stdlib", "language": "python", "path": "a.md"}, "stdlib/python/a.md"),
    ):
        made = done(hub, "create_document", {**place, **fields, "content": "pumpkin\n"})
        text = (tmp_path / "library" / file).read_text("utf-8")
        head, _, body = text.removeprefix("---\n").partition("---\n")
        assert body.strip() == "pumpkin" and fields.items() <= yaml.safe_load(head).items()
        assert made["uri"] in {one["uri"] for one in done(hub, "search", {"query": "pumpkin"})["results"]}
        bare = {key: value for key, value in place.items() if key not in ("language", "project")}
        refused = hub.call("jane", "create_document", {**bare, "title": "x", "content": "x"})
        assert refused.result["isError"] is True and "parameter is required" in refused.text
    assert set(read_files(tmp_path / "library")) == {"specs/hub/a/rooms.md", "stdlib/python/a.md"}


def test_an_update_keeps_what_it_does_not_name_and_is_whole_or_not_there(hub: Hub, tmp_path: Path) -> None:
    """JANE-10: the whole row: each field alone, updateMeta, unspecified metadata kept, one file replaced at once."""
    fields = {"title": "Rooms", "description": "one", "author": "ann", "tags": ["a"], "content": "text\n"}
    made = done(hub, "create_document", {**AT, **fields})
    wanted: dict[str, Any] = dict(fields)
    for name, value in {"title": "T", "description": "D", "author": "bea", "tags": ["b"], "content": "new\n"}.items():
        done(hub, "update_document", {**AT, name: value})
        wanted[name] = value
        assert read_back(hub) == wanted, name
    done(hub, "update_document", {**AT, "title": "No", "content": "last\n", "updateMeta": False})
    assert read_back(hub) == {**wanted, "content": "last\n"}
    before, file = read_files(tmp_path / "library"), tmp_path / "library/specs/hub/a/rooms.md"
    late = hub.call("jane", "update_document", {**AT, "content": "lost", "expected_cid": made["cid"]})
    assert late.result["isError"] is True and read_files(tmp_path / "library") == before
    with file.open("rb") as reader:
        done(hub, "update_document", {**AT, "content": "after\n"})
        assert reader.read() == before["specs/hub/a/rooms.md"], "a reader sees one version whole"
    assert set(read_files(tmp_path / "library")) == set(before)


def read_back(hub: Hub) -> dict[str, Any]:
    """The fields of the document `AT` as its tool gives them."""
    found = done(hub, "get_spec", {"project": AT["project"], "path": AT["path"]})
    kept = {name: found["metadata"][name] for name in ("title", "description", "author", "tags")}
    return {**kept, "content": found["content"]}


@pytest.mark.parametrize(
    ("type", "group", "get"), [("stdlib", "language", "get_stdlib"), ("spec", "project", "get_spec")]
)
def test_a_document_has_its_title_and_each_failure_is_an_error(
    hub: Hub, type: str, group: str, get: str, tmp_path: Path
) -> None:
    """JANE-4, JANE-5: the whole rows: content with title; bad parameters, not found, a file system that fails."""
    done(hub, "create_document", {"type": type, group: "one", "path": "a.md", "title": "Gourds", "content": "text\n"})
    given = hub.call("jane", get, {group: "one", "path": "a.md"})
    assert given.text == "# Gourds\n\ntext\n" and given.result["structuredContent"]["title"] == "Gourds"
    (file,) = (tmp_path / "library").rglob("a.md")
    file.write_bytes(b"\xff")
    for arguments, said in (
        ({"path": "a.md"}, group),
        ({group: "one", "path": ""}, "path"),
        ({group: "one", "path": "../a.md"}, "'..'"),
        ({group: "one", "path": "b.md"}, "there is no document b.md"),
        ({group: "one", "path": "a.md"}, "is not UTF-8 text"),
    ):
        failed = hub.call("jane", get, arguments)
        assert failed.result["isError"] is True and said in failed.text, arguments
