"""Source and past: what a server was, any two states compared, and the way back, which is confirmed and guarded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.boot import read_variable
from patchbay.cid import cid_of
from patchbay.web.rendering.markdown import ELEMENTS as MARKDOWN
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import TOWN, links, read, read_json, set_variable, town_hub
from tests.wire.hostile import HOSTILE, Reader, is_shown

STAY = "def stay(at: str) -> str:\n    return at\n\n\n"
BETTER = TOWN.replace("days: int = 2", "days: float = 3").replace("def visit(", f"{STAY}def visit(")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for all: each test goes back only to a root of its own, and what it changes it names after itself."""
    hub = town_hub(tmp_path_factory.mktemp("hub")).log_in()
    yield hub
    hub.close()


@pytest.fixture(autouse=True)
def as_it_was(hub: Hub) -> Iterator[None]:
    """Whatever a test did to the town is undone after it."""
    yield
    if (hub.servers / "town.py").read_text() != TOWN:
        saved(hub, "town", TOWN)


def root(hub: Hub) -> str:
    return str(hub.catalogue.store.names.get("root"))


def saved(hub: Hub, name: str, text: str) -> None:
    """Save a file of the watched folder and wait until it is served."""
    (hub.servers / f"{name}.py").write_text(text)
    until(lambda: served(hub, name).definition == cid_of(text.encode()), "the new definition")


def served(hub: Hub, name: str) -> Any:
    return next(one for one in hub.catalogue.all() if one.name == name)


def field(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found, name
    return found[1]


def rolled(hub: Hub, path: str, **changed: str) -> TestResponse:
    """Open the page that confirms, and press its button; `changed` are fields with other values than the page has."""
    html = read(hub, path)
    names = [name for name in ("csrf", "root", "name", "cid", "seen") if f'name="{name}" value=' in html]
    fields = {name: field(html, name) for name in names} | changed
    return hub.client.post("/history/rollback", data=fields)


def test_two_versions_of_a_server_side_by_side_and_by_what_they_mean(hub: Hub) -> None:
    """VWR-6, JN-45: a new tool breaks nothing, a lost one does."""
    old = served(hub, "town").version
    saved(hub, "town", BETTER)
    new = served(hub, "town").version
    page = Reader(html := read(hub, f"/servers/town/compare?old={old}&new={new}"))
    assert page.faults == []
    assert "Tool 'stay': New tool added" in page.text
    assert 'class="hit"' in html and "float" in page.text
    back = Reader(read(hub, f"/servers/town/compare?old={new}&new={old}")).text
    assert "Tool 'stay': Removed" in back and "breaking" in back
    assert read_json(hub.client.get(f"/servers/town/compare.json?old={old}&new={new}"))["meaning"]["worst"] == "review"


def test_a_broken_version_can_be_compared_too(hub: Hub) -> None:
    good = served(hub, "town").version
    saved(hub, "town", "def visit(:\n")
    bad = served(hub, "town").version
    text = Reader(read(hub, f"/servers/town/compare?old={good}&new={bad}")).text
    assert "broken" in text and "Tool 'visit': Removed" in text


@pytest.mark.parametrize(
    "query", ["", "?old={version}", "?old={version}&new=bafkreinothing", "?old={other}&new={version}"]
)
def test_only_earlier_versions_of_a_server_can_be_compared(hub: Hub, query: str) -> None:
    version, other = served(hub, "town").version, served(hub, "echo").version
    answer = hub.client.get("/servers/town/compare" + query.format(version=version, other=other))
    assert answer.status_code in (400, 404)


def test_the_page_of_a_server_marks_the_line_that_is_wrong(hub: Hub) -> None:
    html = read(hub, "/servers/broken/source")
    assert re.search(r'<span class="row wrong" id="L1">.*not valid Python', html)
    assert '<span class="row noted" id="L18">' in read(hub, "/servers/town/source")


def test_the_source_is_coloured_and_stays_what_it_is(hub: Hub) -> None:
    html = read(hub, "/servers/town/source")
    assert '<span class="t-keyword">def</span>' in html
    shown = Reader(re.sub(r'<span class="why">[^<]*</span>', "", html)).text
    assert TOWN in shown


def test_two_roots_differ_by_the_names_that_moved_between_them(hub: Hub) -> None:
    set_variable(hub, "differs", b'{"a":1}', "first")
    first = root(hub)
    set_variable(hub, "differs", b'{"a":2}', "second")
    page = Reader(read(hub, f"/history/compare?old={first}&new={root(hub)}"))
    assert page.faults == []
    assert "1 name differs" in page.text and "variable differs" in page.text
    told = read_json(hub.client.get(f"/history/compare.json?old={first}&new={root(hub)}"))
    assert [each["changed"]["name"] for each in told["differences"]] == ["variables/differs"]


def test_any_two_contents_are_compared(hub: Hub) -> None:
    one, two = (hub.catalogue.store.blobs.put(text) for text in (b"a\nb\n", b"a\nc\n"))
    assert "1 added" in Reader(read(hub, f"/history/compare?old={one}&new={two}")).text
    image = hub.catalogue.store.blobs.put(b"\xff\0")
    assert "One of the contents is not text" in Reader(read(hub, f"/history/compare?old={one}&new={image}")).text
    assert hub.client.get(f"/history/compare?old={one}&new={cid_of(b'absent')}").status_code == 404


def test_the_hub_goes_back_to_a_root(hub: Hub) -> None:
    """DESIGN 4: rollback is a change with a reason and a root of its own."""
    before = root(hub)
    set_variable(hub, "back", b"hello", "a slip")
    answer = rolled(hub, f"/history/rollback?root={before}", why="it was a slip")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/history?back=yes")
    assert "Rolled back. The hub is again as it was at " in " ".join(
        Reader(read(hub, "/history?back=yes")).text.split()
    )
    assert read_variable(hub.catalogue.store, "back") is None
    assert root(hub) == before
    newest = hub.catalogue.store.names.past("root", 1)[0]
    assert (newest.who, newest.why) == ("operator", "it was a slip")


def test_one_name_goes_back_alone(hub: Hub) -> None:
    for text in (b"one", b"two"):
        set_variable(hub, "alone", text, "why")
        set_variable(hub, "other", text, "why")
    assert rolled(hub, f"/history/rollback?name=variables/alone&cid={cid_of(b'one')}").status_code == 303
    assert read_variable(hub.catalogue.store, "alone") == b"one"
    assert read_variable(hub.catalogue.store, "other") == b"two"


def test_a_server_of_the_folder_goes_back_with_its_file(hub: Hub) -> None:
    """The file is the truth: were it left alone, the watcher would undo the rollback."""
    before = root(hub)
    saved(hub, "town", "def visit(:\n")
    assert served(hub, "town").broken
    assert rolled(hub, f"/history/rollback?root={before}").status_code == 303
    assert (hub.servers / "town.py").read_text() == TOWN
    assert not served(hub, "town").broken
    moves = len(hub.catalogue.store.names.past("servers/town"))
    hub.catalogue._folder.start()
    assert len(hub.catalogue.store.names.past("servers/town")) == moves
    assert not list(hub.servers.glob(".*"))


def test_a_server_that_was_not_there_goes_with_its_file_and_can_come_back(hub: Hub) -> None:
    before = root(hub)
    (hub.servers / "late.py").write_text(TOWN)
    until(lambda: any(one.name == "late" for one in hub.catalogue.all()), "the late server")
    after = root(hub)
    assert rolled(hub, f"/history/rollback?root={before}").status_code == 303
    assert not (hub.servers / "late.py").exists()
    assert not any(one.name == "late" for one in hub.catalogue.all())
    assert rolled(hub, f"/history/rollback?root={after}").status_code == 303
    assert served(hub, "late").definition == cid_of(TOWN.encode())


def test_a_hub_that_changed_meanwhile_is_not_overwritten(hub: Hub) -> None:
    before = root(hub)
    set_variable(hub, "meanwhile", b"one", "first")
    answer = rolled(hub, f"/history/rollback?root={before}", seen=before)
    assert answer.status_code == 409
    assert read_variable(hub.catalogue.store, "meanwhile") == b"one"


def test_only_an_earlier_state_can_be_restored(hub: Hub) -> None:
    """Knowing a CID is not a permission."""
    foreign = hub.catalogue.store.blobs.put(
        b'{"version":1,"readonly":false,"servers":[],"variables":[],"templates":[]}'
    )
    for query in (
        f"root={foreign}",
        f"name=variables/mcps&cid={foreign}",
        f"name=root&cid={foreign}",
        "name=x&cid=",
        "",
    ):
        assert hub.client.get(f"/history/rollback?{query}").status_code == 400
    assert "No server, variable or template differs" in Reader(read(hub, f"/history/rollback?root={root(hub)}")).text


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost:9"}, {"Sec-Fetch-Site": "same-site"}]
)
def test_another_site_cannot_roll_back(hub: Hub, headers: dict[str, str]) -> None:
    """THREATS 1.4 (CSRF)."""
    before = root(hub)
    value = repr(headers).encode()
    set_variable(hub, "crossed", value, "first")
    html = read(hub, f"/history/rollback?root={before}")
    fields = {name: field(html, name) for name in ("csrf", "root", "seen")}
    assert hub.client.post("/history/rollback", data=fields, headers=headers).status_code == 403
    assert hub.client.post("/history/rollback", data=fields | {"csrf": "made up"}).status_code == 403
    assert read_variable(hub.catalogue.store, "crossed") == value


def test_a_read_only_hub_shows_its_past_and_goes_nowhere(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly").log_in()
    for path in ("/history", f"/history/rollback?root={root(hub)}", "/servers/new", "/servers/echo/edit"):
        html = read(hub, path)
        assert "read-only" in html
        assert ">Roll back<" not in html and 'value="save"' not in html
    assert hub.client.post("/history/rollback", data={"root": root(hub), "csrf": ""}).status_code in (403, 405)
    hub.close()


def test_moves_of_one_name(hub: Hub) -> None:
    set_variable(hub, "moved", b"one", "first thoughts")
    set_variable(hub, "moved", b"two", "second thoughts")
    text = Reader(html := read(hub, "/history/names?name=variables/moved")).text
    assert text.index("second thoughts") < text.index("first thoughts")
    assert "servers/town" not in text
    assert f"/cid/{cid_of(b'two')}" in links(html)
    assert "no changes of the name" in Reader(read(hub, "/history/names?name=nothing")).text
    assert hub.client.get("/history?before=x").status_code == 400


def test_history_goes_on_behind_a_link(hub: Hub) -> None:
    for number in range(60):
        set_variable(hub, "count", str(number).encode(), f"number {number}.")
    html = read(hub, "/history")
    assert "number 59." in html and "number 5." not in html
    older = next(link for link in links(html) if link.startswith("/history?before="))
    assert "number 5." in read(hub, older)


def shows_as_text(hub: Hub, path: str, *texts: str) -> None:
    page = Reader(html := read(hub, path))
    assert page.faults == [], path
    assert [text for text in texts if "<" in text and text in html] == [], path


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_hostile_sources_names_and_reasons_are_shown_as_they_are(hub: Hub, index: int) -> None:
    """T14.2: in a definition, a value, a reason, a diff and a content."""
    text = HOSTILE[index]
    set_variable(hub, "v", b"before", "why")
    first = root(hub)
    set_variable(hub, "v", text.encode(), text)
    source = hub.catalogue.store.blobs.put(f"# {text}\ndef f(): pass\n".encode())
    shows_as_text(hub, "/variables/v", text)
    shows_as_text(hub, f"/history/compare?old={first}&new={root(hub)}", text)
    shows_as_text(hub, f"/history/rollback?root={first}", text)
    shows_as_text(hub, f"/cid/{source}", text)


@pytest.mark.parametrize("texts", [HOSTILE[:30], HOSTILE[30:]], ids=["first", "last"])
def test_hostile_values_and_reasons_are_shown_as_they_are_in_lists(hub: Hub, texts: tuple[str, ...]) -> None:
    """T14.2: a list shows many of them on one page."""
    for number, text in enumerate(texts):
        set_variable(hub, "listed", text.encode(), text)
        set_variable(hub, f"listed-{number}", text.encode(), "why")
    for path in ("/history/names?name=variables/listed", "/variables"):
        shows_as_text(hub, path, *texts)
    page = Reader(read(hub, "/history/names?name=variables/listed")).text
    assert [text for text in texts if not is_shown(text, page)] == []
    for text in texts:
        set_variable(hub, "listed", b"", text)
    shows_as_text(hub, "/history", *texts)


@pytest.mark.parametrize("index", range(len(HOSTILE)))
def test_hostile_markdown_is_made_of_harmless_elements(hub: Hub, index: int) -> None:
    """S24."""
    text = HOSTILE[index]
    markdown = hub.catalogue.store.blobs.put(f"# {text}\n\n* [a]({text})\n* b\n\n{text}\n".encode())
    html = read(hub, f"/cid/{markdown}")
    harmless = {f"the element {name}" for name in MARKDOWN}
    assert [fault for fault in Reader(html).faults if fault not in harmless] == []
    assert 'class="markdown page"' in html
