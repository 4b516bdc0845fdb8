"""The search over all servers and tools: a page, its JSON, and what a search of a large hub costs."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from flask.testing import FlaskClient

from patchbay.embeddings.selection import select
from patchbay.web.openapi.route_shapes import SCHEMAS
from patchbay.web.site.data import ITEMS_PER_PAGE
from tests.embeddings.small_models import make_model
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, read, read_json
from tests.wire.hostile import Reader


def test_the_page_and_its_json_find_the_same(client: FlaskClient) -> None:
    """VWR-5: a form that is sent by GET; each find leads to its place on its server's page."""
    html = read(client, "/search?q=go+somewhere")
    found = read_json(client.get("/search.json?q=go+somewhere"))
    first = next(each for each in found if each["server"] == "town")
    assert (first["kind"], first["name"], first["page"]) == ("tool", "visit", "/servers/town?tool=visit#tool-1")
    assert 'href="/servers/town?tool=visit#tool-1"' in html and 'id="tool-1"' in read(client, "/servers/town")
    assert "<mark>Go</mark> <mark>somewhere</mark>" in html
    assert "\x02" not in str(found)


def test_a_search_can_be_for_one_kind(client: FlaskClient) -> None:
    kinds = {each["kind"] for each in read_json(client.get("/search.json?q=plan+trip+map&kind=prompt"))}
    assert kinds == {"prompt"}
    answer = client.get("/search.json?q=x&kind=nonsense", headers={"Accept": "application/json"})
    assert answer.status_code == 400
    assert "server, tool, resource, prompt" in read_json(answer)["error"]


def test_a_search_without_words_or_finds_says_so(client: FlaskClient) -> None:
    assert "No results. Try fewer or other words." in Reader(read(client, "/search?q=zzzz")).text
    assert "Search in all servers" in Reader(read(client, "/search")).text
    assert read_json(client.get("/search.json?q=%22%22")) == []


def test_the_tools_of_a_large_server_are_shown_in_pages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A result on a later page links to it; an invalid page number is refused."""
    source = "\n\n".join(f'def tool{n}() -> str:\n    """Number {n}."""\n    return ""' for n in range(1, 251))
    hub = Hub(tmp_path_factory.mktemp("large"), {"large.py": source})
    place = read_json(hub.client.get("/search.json?q=tool205&kind=tool"))[0]["page"]
    path, _, anchor = place.partition("#")
    html = read(hub, path)
    assert f'id="{anchor}"' in html and "tool205" in html
    assert html.count('id="tool-') == ITEMS_PER_PAGE and html.count('data-try="tool"') == 2, (
        "the first and the selected one"
    )
    assert hub.client.get("/servers/large?page=6", headers=BROWSER).status_code == 400
    hub.close()


def test_every_kind_that_is_documented_is_served(client: FlaskClient) -> None:
    document = read_json(client.get("/openapi.json"))
    asked = {each["name"]: each["schema"] for each in document["paths"]["/search"]["get"]["parameters"]}
    for kind in asked["kind"]["enum"]:
        assert client.get(f"/search.json?q=x&kind={kind}").status_code == 200, kind


def test_a_row_that_is_found_by_its_meaning_says_so_and_fits_the_api_document(
    client: FlaskClient, tmp_path: Path
) -> None:
    select(str(make_model(tmp_path, (("town", "zzmirror"),))))
    try:
        asked = "/search.json?q=zzmirror&kind=server"
        rows = until(lambda: read_json(client.get(asked)), "an answer, by words only while the first vectors are made")
        assert ("town", "meaning") in [(row["name"], row["why"]) for row in rows]
        assert "found by its meaning" in read(client, "/search?q=zzmirror&kind=server")
        schema = SCHEMAS["Found"]
        jsonschema.validate(rows, {"type": "array", "items": schema})
    finally:
        select("off")
