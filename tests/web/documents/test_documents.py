"""The pages of documents: a folder and Jane's library are read, searched, compared and edited. Issue 17 part 6."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from werkzeug.test import TestResponse

from patchbay.documents.collection import Library
from patchbay.embeddings.selection import select
from patchbay.web.documents.libraries import ShownLibrary
from patchbay.web.documents.reader import describe_meaning, find_documents
from patchbay.web.rendering.markdown import ELEMENTS
from tests.embeddings.small_models import make_model
from tests.hubs import Hub
from tests.web.browsing import BROWSER, get, links, read, read_json, set_variable
from tests.wire.hostile import HOSTILE, Reader

GUIDE = """---
title: The guide
tags: [bread, cake]
---

# The guide

See [the oven](parts/oven.md#heat), [nothing](gone.md), [outside](../../secret.md), [a site](https://example.org/x)
and [a trick](javascript:alert(1)).

## Dough

Flour and water. ![a picture](https://example.org/x.png)

## Dough

<script>alert(1)</script>
"""
FILES = {
    "guide.md": GUIDE,
    "parts/oven.md": "# The oven\n\n## Heat\n\nIt is hot. Back to [the guide](../guide.md).\n",
    "bad.md": "---\ntitle: [\n---\n\n# Bad\n",
    "strange/ä b+c.md": "# Strange\n",
    "strange/why? #1 & 100%25.MD": "Why\n===\n\nBecause.\n",
    "strange/hidden\u2028.md": "# Hidden\n",
}
GUIDE_PAGE = "/servers/notes/documents?path=guide.md"
LIST_PAGE = "/servers/jane/documents?path=stdlib/python/lists.md"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    for path, text in FILES.items():
        (folder / "notes" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "notes" / path).write_text(text, "utf-8")
    config = json.dumps({"kind": "documents", "root": str(folder / "notes")})
    hub = Hub(folder, {"notes.json": config}, jane_dir=str(folder / "jane")).log_in()
    hub.call("jane", "create_document", {
        "type": "stdlib", "language": "python", "path": "lists.md", "title": "Lists", "content": "# Lists\n\nAppend.\n",
    })  # fmt: skip
    yield hub
    hub.close()


def post(hub: Hub, server: str, **fields: str) -> TestResponse:
    """Send the form of the editor."""
    page = f"/servers/{server}/documents/edit"
    found = re.search(r'name="csrf" value="([^"]*)"', read(hub, page))
    assert found
    return hub.client.post(page, data={"csrf": found[1], "action": "save", **fields}, headers=BROWSER)


def data_of(hub: Hub, address: str) -> dict[str, object]:
    page, _, query = address.partition("?")
    found: dict[str, object] = read_json(hub.client.get(f"{page}.json?{query}"))
    return found


def test_a_folder_lists_its_folders_and_documents_by_title(hub: Hub) -> None:
    html = read(hub, "/servers/notes/documents")
    assert {GUIDE_PAGE, "/servers/notes/documents?folder=parts"} <= links(html)
    text = Reader(html).text
    assert "The guide" in text and "1 document" in text
    assert "front matter" in text, "the document with unreadable front matter is marked"
    inside = links(read(hub, "/servers/notes/documents?folder=parts"))
    assert "/servers/notes/documents?path=parts/oven.md" in inside
    assert GUIDE_PAGE not in inside


def test_a_file_that_is_not_served_is_named_with_the_reason(hub: Hub) -> None:
    """33.9: on the page of its folder and on those of the folders above; names with signs have working links."""
    text = " ".join(Reader(read(hub, "/servers/notes/documents")).text.split())
    assert "hidden .md: its name contains the control or invisible character U+2028" in text
    inside = read(hub, "/servers/notes/documents?folder=strange")
    assert "1 not served" in inside
    assert "not served" not in read(hub, "/servers/notes/documents?folder=parts")
    (page,) = (each for each in links(inside) if "why" in each)
    assert "Because." in read(hub, page)
    assert "1 file or folder is not served" in read(hub, "/servers/notes")


def test_the_server_page_leads_to_its_documents(hub: Hub) -> None:
    assert "/servers/notes/documents" in links(read(hub, "/servers/notes"))
    assert "/servers/hello/documents" not in links(read(hub, "/servers/notes"))


def test_a_document_has_working_links_and_headings_and_its_front_matter_as_a_table(hub: Hub) -> None:
    html = read(hub, GUIDE_PAGE)
    article = html.partition("<article")[2].partition("</article>")[0]
    assert '<h2 id="dough">' in article and '<h2 id="dough-1">' in article
    assert {"#dough", "#dough-1"} <= links(html)
    found = links(article)
    assert "/servers/notes/documents?path=parts/oven.md#heat" in found
    assert "https://example.org/x" in found
    assert not any("secret" in each or "gone" in each or "javascript" in each for each in found)
    assert re.search(r"<th scope=\"row\">tags</th><td>bread, cake</td>", article)
    assert '<h2 id="heat">' in read(hub, "/servers/notes/documents?path=parts/oven.md")


def test_a_document_loads_nothing_and_runs_nothing(hub: Hub) -> None:
    html = read(hub, GUIDE_PAGE)
    assert Reader(html).faults == ["a href=https://example.org/x"], "the link that the document has"
    article = html.partition("<article")[2].partition("</article>")[0]
    assert "<img" not in article and "<script" not in article
    assert "alert(1)" in Reader(article).text


def test_hostile_text_in_a_document_stays_text(hub: Hub) -> None:
    for text in HOSTILE:
        body = f"---\ntitle: {json.dumps(text)}\n---\n\n# {text}\n\n[{text}]({text}) `{text}`\n"
        answer = post(hub, "jane", path=f"stdlib/python/{text[:20]}", text=body, action="check")
        assert answer.status_code == 200
        faults = set(Reader(answer.get_data(as_text=True)).faults) - {f"the element {name}" for name in ELEMENTS}
        assert faults == set(), text
        assert Reader(read(hub, f"/servers/notes/documents?q={quote(text)}")).faults == [], text


def test_a_search_finds_documents_and_marks_the_words(hub: Hub) -> None:
    html = read(hub, "/servers/notes/documents?q=flour")
    assert "/servers/notes/documents?path=guide.md#dough" in links(html)
    assert "<mark>Flour</mark>" in html
    found = data_of(hub, "/servers/notes/documents?q=flour")["found"]
    assert isinstance(found, dict)
    assert [each["path"] for each in found["results"]] == ["guide.md"]


def test_a_name_with_special_characters_is_read(hub: Hub) -> None:
    inside = links(read(hub, "/servers/notes/documents?folder=strange"))
    [page] = [each for each in inside if "path=strange" in each and "why" not in each]
    assert "Strange" in Reader(read(hub, page)).text


@pytest.mark.parametrize(
    "page",
    [
        "/servers/notes/documents?path=gone.md",
        "/servers/notes/documents?path=../secret.md",
        "/servers/notes/documents?path=/etc/passwd",
        "/servers/notes/documents/edit",
        "/servers/hello/documents",
        "/servers/none/documents",
    ],
)
def test_a_missing_document_gets_404_or_a_clear_error(hub: Hub, page: str) -> None:
    answer = hub.client.get(page, headers=BROWSER)
    assert answer.status_code in (400, 404), answer.status_code
    assert "passwd:" not in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("server", "path", "folder"),
    [("jane", "absent", ""), ("notes", "parts/gone.md", "?folder=parts"), ("notes", "no/such/ä.md", "?folder=no/such")],
)
def test_a_path_without_a_document_is_named_and_leads_to_its_folder(
    hub: Hub, server: str, path: str, folder: str
) -> None:
    html = read(hub, f"/servers/{server}/documents?path={quote(path)}", 404)
    assert f"There is no document at {path} in {server}." in Reader(html).text
    assert f"/servers/{server}/documents{folder}" in links(html)


def test_a_server_without_documents_is_named(hub: Hub) -> None:
    assert "The server mcp has no library of documents" in Reader(read(hub, "/servers/mcp/documents", 404)).text


def test_jane_is_read_with_its_versions_and_their_difference(hub: Hub) -> None:
    document = data_of(hub, LIST_PAGE)
    answer = post(hub, "jane", path="stdlib/python/lists.md", text="# Lists\n\nExtend.\n", base=str(document["cid"]))
    assert (answer.status_code, answer.headers["Location"]) == (303, LIST_PAGE)
    after = data_of(hub, LIST_PAGE)
    assert after["content"] == "# Lists\n\nExtend.\n"
    versions = after["versions"]
    assert isinstance(versions, list) and [each["how"] for each in versions[:2]] == ["updated", "created"]
    new, old = (each["cid"] for each in versions[:2])
    assert "Append." in Reader(read(hub, f"{LIST_PAGE}&version={old}")).text
    compared = read(hub, f"/servers/jane/documents/compare?path=stdlib/python/lists.md&old={old}&new={new}")
    assert '<span class="hit">Append</span>' in compared and '<span class="hit">Extend</span>' in compared
    restored = read(hub, f"/servers/jane/documents/edit?path=stdlib/python/lists.md&version={old}")
    assert "Append." in restored and f'name="base" value="{new}"' in restored


def test_a_document_that_changed_meanwhile_is_not_overwritten(hub: Hub) -> None:
    base = str(data_of(hub, LIST_PAGE)["cid"])
    file = Path(hub.settings.jane_dir) / "stdlib" / "python" / "lists.md"
    file.write_text("# Lists\n\nAn editor was faster.\n", "utf-8")
    answer = post(hub, "jane", path="stdlib/python/lists.md", text="# Mine\n", base=base)
    assert answer.status_code == 409
    text = answer.get_data(as_text=True)
    assert "read it again first" in text and "# Mine" in text, "the typed text is lost"
    assert file.read_text("utf-8") == "# Lists\n\nAn editor was faster.\n"


def test_a_new_document_is_written_once_and_only_into_a_collection(hub: Hub) -> None:
    answer = post(hub, "jane", path="specs/hub/rooms.md", text="# Rooms\n")
    assert answer.status_code == 303
    assert data_of(hub, "/servers/jane/documents?path=specs/hub/rooms.md")["title"] == "Rooms"
    again = post(hub, "jane", path="specs/hub/rooms.md", text="# Other\n")
    assert again.status_code == 409 and "# Other" in again.get_data(as_text=True)
    for path in ("elsewhere.md", "../out.md", "specs/hub/.hidden.md"):
        refused = post(hub, "jane", path=path, text="# No\n")
        assert 400 <= refused.status_code < 500, path
        assert "# No" in refused.get_data(as_text=True)


def test_a_reader_without_the_rights_of_the_operator_sees_no_editor_and_changes_nothing(hub: Hub) -> None:
    stranger = hub.app.test_client()
    html = stranger.get(LIST_PAGE, headers=BROWSER).get_data(as_text=True)
    assert "/documents/edit" not in html
    base = str(data_of(hub, LIST_PAGE)["cid"])
    fields = {"path": "stdlib/python/lists.md", "text": "# Stolen\n", "base": base, "action": "save"}
    answer = stranger.post("/servers/jane/documents/edit", data=fields, headers=BROWSER)
    assert answer.status_code in (401, 403)
    assert str(data_of(hub, LIST_PAGE)["cid"]) == base


def test_grants_hide_documents_from_every_list_and_search(hub: Hub) -> None:
    """What a caller may not read, no page shows: the same decision as for resources."""
    grants = {
        "grants": [
            {"to": ["*"], "may": ["see"], "on": ["notes"]},
            {"to": ["*"], "may": ["read"], "on": ["notes.docs://notes/parts/*"]},
        ]
    }
    set_variable(hub, "access", json.dumps(grants).encode(), "limit")
    hub.catalogue.refresh()
    stranger = hub.app.test_client()
    try:
        listed = stranger.get("/servers/notes/documents.json")
        assert [each["name"] for each in read_json(listed)["folders"]] == ["parts"]
        assert read_json(listed)["documents"] == []
        found = stranger.get("/servers/notes/documents.json?q=flour")
        assert read_json(found)["found"]["results"] == [] and read_json(found)["found"]["total"] == 0
        assert stranger.get("/servers/notes/documents?path=guide.md").status_code == 404
        oven = stranger.get("/servers/notes/documents?path=parts/oven.md", headers=BROWSER)
        assert oven.status_code == 200 and "guide.md" not in oven.get_data(as_text=True).partition("<article")[2]
    finally:
        set_variable(hub, "access", b'{"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]}', "lift")
        hub.catalogue.refresh()
    assert get(hub, GUIDE_PAGE).status_code == 200


def test_the_page_says_how_many_documents_meaning_does_not_know_yet_but_not_to_readers_of_some(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "notes" / name).write_text("# Photo\n")
    select(str(make_model(tmp_path / "model")))
    try:
        with Library(tmp_path / "notes") as library:
            library.refresh()
            everything = ShownLibrary("notes", library, lambda path: True)
            assert describe_meaning(everything) == {"is_on": True, "pending": 2, "documents": 2, "install": ""}
            some = ShownLibrary("notes", library, lambda path: path == "a.md")
            assert describe_meaning(some) == {"is_on": True, "pending": 0, "documents": 1, "install": ""}
            library.embed()
            assert describe_meaning(everything)["pending"] == 0
            found = find_documents(some, "image")
            assert [(each["path"], each["why"]) for each in found["results"]] == [("a.md", "meaning")]
    finally:
        select("")


def test_the_page_says_what_the_extra_would_bring(hub: Hub) -> None:
    try:
        select("off")
        assert "patchbay-hub[semantic]" in read(hub, "/servers/jane/documents")
    finally:
        select("")
    assert "patchbay-hub[semantic]" not in read(hub, "/servers/jane/documents")
