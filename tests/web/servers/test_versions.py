"""The tab *Versions*: one table of the changes of a server, each with its version, its button and its identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.boot import read_variable
from patchbay.web.servers.versions import list_server_versions
from tests.hubs import Hub
from tests.web.browsing import TOWN, get, links, read, set_variable

BETTER = TOWN.replace("days: int = 2", "days: int = 3")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, {"town.py": TOWN}).log_in()
    yield hub
    hub.close()


def save(hub: Hub, text: str, why: str) -> None:
    html = read(hub, "/servers/town/edit")
    found = dict(re.findall(r'name="(csrf|base)" value="([^"]*)"', html))
    answer = hub.client.post(
        "/servers/town/edit", data={**found, "source": text, "why": why, "action": "save", "broken": "yes"}
    )
    assert answer.status_code in (200, 303), answer.text


def rows(hub: Hub, name: str = "town") -> list[dict[str, object]]:
    store = hub.catalogue.store
    [server] = [each for each in hub.catalogue.all() if each.name == name]
    return list_server_versions(store, name, server.version)


def test_each_change_is_a_version_and_the_newest_is_current(hub: Hub) -> None:
    save(hub, BETTER, "three days")
    found = rows(hub)
    assert [(row["number"], row["is_current"], row["was_served"]) for row in found] == [
        (2, True, True),
        (1, False, True),
    ]
    assert found[0]["why"] == "three days"


def test_the_page_has_a_button_that_rolls_back_to_each_earlier_version(hub: Hub) -> None:
    save(hub, BETTER, "three days")
    html = read(hub, "/servers/town/past")
    [back] = [each for each in links(html) if each.startswith("/history/rollback?")]
    assert "aria-current" in html and ">Versions</a>" in html
    confirm = read(hub, back)
    fields = dict(re.findall(r'name="(csrf|name|cid|seen)" value="([^"]*)"', confirm))
    answer = hub.client.post("/history/rollback", data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers/town/past?back=yes")
    landed = read(hub, answer.headers["Location"])
    said = " ".join(re.sub(r"<[^>]+>", " ", landed.partition('role="status"')[2].partition("</div>")[0]).split())
    assert "Rolled back. town is again as in version 1, of " in said and "bafk" not in said
    assert (hub.servers / "town.py").read_text() == TOWN
    found = rows(hub)
    assert [(row["number"], row["is_current"]) for row in found] == [(3, True), (2, False), (1, False)]
    assert found[0]["version"] == found[2]["version"]


def test_the_question_before_a_rollback_names_the_server_and_a_time_but_no_identifier(hub: Hub) -> None:
    save(hub, BETTER, "three days")
    [back] = [each for each in links(read(hub, "/servers/town/past")) if each.startswith("/history/rollback?")]
    heading = re.search(r"<h1>(.*?)</h1>", read(hub, back))
    assert heading and re.fullmatch(r"Roll back to the server town as it was at 20\d\d-.* UTC\?", heading[1])
    assert "/servers/town/past" in links(read(hub, back))
    assert "Rolled back." not in read(hub, "/servers/town/past?back=yes")


def test_identifiers_and_revoke_are_behind_more(hub: Hub) -> None:
    save(hub, BETTER, "three days")
    html = read(hub, "/servers/town/past")
    table = html.partition("<tbody>")[2].partition("</tbody>")[0]
    opened = re.sub(r"<details>.*?</details></details>", "", table, flags=re.S)
    shown = re.sub(r"<[^>]+>", " ", opened)
    assert "bafk" not in shown and "Revoke" not in shown
    assert table.count("Revoke this version") == 2 and table.count("/history/revoke?target=") == 2


def test_a_reader_who_may_not_change_the_hub_gets_no_buttons(hub: Hub) -> None:
    save(hub, BETTER, "three days")
    stranger = read(hub.app.test_client(), "/servers/town/past")
    assert "/history/rollback" not in stranger and "/history/revoke" not in stranger
    assert "three days" in stranger


def test_a_shipped_server_has_one_row_for_a_change_though_a_variable_configures_it(hub: Hub) -> None:
    [row] = rows(hub, "echo")
    assert row["is_current"] and row["was_served"] and row["number"] == 1


def test_a_version_that_a_variable_made_is_a_row_without_a_rollback(hub: Hub) -> None:
    store = hub.catalogue.store
    mcps = read_variable(store, "mcps")
    assert mcps is not None
    other = store.blobs.put(b'{"description": "Says it back."}')
    changed = re.sub(rb'("echo":\{"config_cid":")[^"]+', rb"\g<1>" + other.encode(), mcps)
    assert changed != mcps
    set_variable(hub, "mcps", changed, "another description")
    hub.catalogue.refresh()
    newest, oldest = rows(hub, "echo")
    assert newest["is_current"] and newest["cid"] is None and newest["number"] is None
    assert not oldest["is_current"] and oldest["number"] == 1
    assert get(hub, "/servers/echo/past").status_code == 200
