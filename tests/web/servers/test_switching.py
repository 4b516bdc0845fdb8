"""The buttons that switch a server on or off, restart it, remove it and bring it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub
from tests.web.browsing import BROWSER, links, read, read_json
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

ELSEWHERE = {"REMOTE_ADDR": "203.0.113.7"}

TOOL = '"""A tool."""\n\ndef ping() -> str:\n    return "pong"\n'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub for these changes alone."""
    files = {"tool.py": TOOL, "other.py": TOOL, "closed.py": TOOL, "closed.mcp.json": '{"enabled": false}'}
    found = Hub(tmp_path_factory.mktemp("switching"), files).log_in()
    yield found
    found.close()


def change(hub: Hub, name: str, do: str, status: int = 303) -> Any:
    """Press a button on the settings of a server."""
    fields = {"csrf": csrf(hub, f"/servers/{name}/settings"), "do": do}
    answer = hub.client.post(f"/servers/{name}/settings", data=fields, headers=BROWSER)
    assert answer.status_code == status, answer.get_data(as_text=True)[:2000]
    return answer


def status_of(hub: Hub, name: str) -> str | None:
    """The status of a server, None when there is no such server."""
    return next((row["status"] for row in read_json(hub.client.get("/servers.json")) if row["name"] == name), None)


def test_a_server_is_switched_off_and_on_again(hub: Hub) -> None:
    """Issue 17, item 5: each button has a way back."""
    assert "Switch off" in read(hub, "/servers/tool/settings")
    answer = change(hub, "tool", "off")
    assert status_of(hub, "tool") == "off"
    text = Reader(read(hub, answer.headers["Location"])).text
    assert "The server is switched off." in text and "Switch on" in text
    assert "/servers/tool/settings" in links(read(hub, "/servers/tool"))
    change(hub, "tool", "on")
    assert status_of(hub, "tool") == "on"


def test_a_server_restarts_and_still_answers(hub: Hub) -> None:
    answer = change(hub, "tool", "restart")
    assert "The server restarts" in read(hub, answer.headers["Location"])
    assert hub.call("tool", "ping").text == "pong"


def test_a_removed_server_is_brought_back_with_its_file(hub: Hub) -> None:
    answer = change(hub, "other", "remove")
    assert status_of(hub, "other") is None
    assert not (hub.settings.servers / "other.py").exists()
    assert answer.headers["Location"] == "/servers?removed=other"
    text = Reader(read(hub, "/servers?removed=other")).text
    assert "other is removed." in text and "Undo" in text and "Removed servers" in text
    back = hub.client.post("/servers", data={"csrf": csrf(hub, "/servers"), "name": "other"}, headers=BROWSER)
    assert (back.status_code, back.headers["Location"]) == (303, "/servers/other")
    assert status_of(hub, "other") == "on"
    assert (hub.settings.servers / "other.py").read_text() == TOOL
    assert "other is removed." not in read(hub, "/servers?removed=other")


def test_a_server_that_its_configuration_switches_off_says_where_to_change_it(hub: Hub) -> None:
    assert '"enabled": false' in Reader(read(hub, "/servers/closed/settings")).text
    text = Reader(change(hub, "closed", "on", 400).get_data(as_text=True)).text
    assert "because it switches closed off" in text


@pytest.mark.parametrize("do", ["off", "remove", "restart", "destroy"])
def test_only_a_form_of_this_hub_changes_a_server(hub: Hub, do: str) -> None:
    """Without the value of the form the hub refuses, and changes nothing."""
    assert hub.client.post("/servers/tool/settings", data={"do": do}, headers=BROWSER).status_code == 403
    stranger = hub.app.test_client()
    assert stranger.post("/servers/tool/settings", data={"do": do}, headers=BROWSER).status_code in (401, 403)
    assert stranger.post("/servers", data={"name": "tool"}, headers=BROWSER).status_code in (401, 403)
    assert status_of(hub, "tool") == "on"


@pytest.mark.parametrize(("kind", "sample"), [("python", "def greet("), ("shell", "#!/bin/sh"), ("static", "static")])
def test_a_new_server_of_every_kind_begins_with_a_sample_that_is_valid(hub: Hub, kind: str, sample: str) -> None:
    """Issue 17, item 5: servers can be added, all kinds."""
    page = read_json(hub.client.get(f"/servers/new.json?kind={kind}"))
    assert sample in page["source"]
    fields = {"csrf": csrf(hub, "/servers/new"), "action": "save", "name": f"new_{kind}", "source": page["source"]}
    assert hub.client.post("/servers/new", data=fields, headers=BROWSER).status_code == 303
    assert status_of(hub, f"new_{kind}") == "on"


def test_a_folder_of_documents_is_added(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# One\n")
    fields = {"csrf": csrf(hub, "/servers/new"), "name": "papers", "root": str(tmp_path)}
    answer = hub.client.post("/servers/new/documents", data=fields, headers=BROWSER)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers/papers")
    assert status_of(hub, "papers") == "on"
    again = hub.client.post("/servers/new/documents", data=fields, headers=BROWSER)
    assert again.status_code == 400 and "expected no server papers yet" in Reader(again.get_data(as_text=True)).text
    wrong = hub.client.post("/servers/new/documents", data=fields | {"name": "x", "root": "papers"}, headers=BROWSER)
    assert wrong.status_code == 400 and status_of(hub, "x") is None


def test_an_operator_on_another_machine_cannot_serve_a_folder(hub: Hub, tmp_path: Path) -> None:
    fields = {"csrf": csrf(hub, "/servers/new"), "name": "far", "root": str(tmp_path)}
    answer = hub.client.post("/servers/new/documents", data=fields, headers=BROWSER, environ_base=ELSEWHERE)
    assert answer.status_code == 403 and status_of(hub, "far") is None


def test_an_unknown_button_is_refused(hub: Hub) -> None:
    text = Reader(change(hub, "tool", "burn", 400).get_data(as_text=True)).text
    assert "must be one of on, off, restart, remove, writes, reads" in text


def test_a_built_in_server_is_put_into_the_list_of_all_servers_and_taken_out(hub: Hub) -> None:
    """Issue 54, item 3: a new hub lists the servers of its operator alone."""

    def listed() -> set[str]:
        return {tool["name"].partition("__")[0] for tool in hub.modern("", "tools/list").result["tools"]}

    assert "List at /mcp" in read(hub, "/servers/echo/settings") and "echo" not in listed()
    answer = change(hub, "echo", "listed")
    assert "The list at /mcp has this server now." in Reader(read(hub, answer.headers["Location"])).text
    assert "echo" in listed()
    change(hub, "echo", "unlisted")
    assert "echo" not in listed() and "tool" in listed()
    assert "List at /mcp" not in read(hub, "/servers/tool/settings")
    refused = change(hub, "tool", "listed", 400)
    assert "expected a built-in server" in refused.get_data(as_text=True)
