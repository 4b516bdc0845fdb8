"""`/secrets`: an administrator stores and removes secrets; no answer has a value. Issue 56, 1."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.secrets.keyed_mounts import secrets_of
from tests.hubs import Hub
from tests.web.browsing import read_json

VALUE = "a-very-secret-value"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    config = json.dumps({"auto_discover": True, "environment": {"TOKEN": "${TOKEN}"}})
    files = {"shelly.sh": "#!/bin/sh\necho ran\n", "shelly.mcp.json": config}
    one = Hub(tmp_path, files).log_in()
    yield one
    one.close()


def page(hub: Hub) -> str:
    answer = hub.client.get("/secrets", headers={"Accept": "text/html"})
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.text


def post(hub: Hub, **fields: str) -> tuple[int, str]:
    csrf = re.search(r'name="csrf" value="([^"]+)"', page(hub))
    assert csrf is not None
    answer = hub.client.post("/secrets", data=fields | {"csrf": csrf[1]}, headers={"Accept": "text/html"})
    return answer.status_code, answer.text


def test_a_stored_secret_is_listed_with_its_servers_and_never_shown(hub: Hub) -> None:
    assert "There is no secret" in page(hub)
    assert post(hub, do="set", name="TOKEN", value=VALUE, servers="shelly, other")[0] == 303
    assert secrets_of(hub).find("TOKEN", "shelly") == VALUE
    assert hub.call("shelly", "shelly").text.strip() == "ran"
    (found,) = read_json(hub.client.get("/secrets.json"))["secrets"]
    assert (found["name"], found["servers"], found["readable"]) == ("TOKEN", ["other", "shelly"], True)
    assert [user["server"] for user in found["used_by"]] == ["shelly"]
    assert found["last_use"] is not None
    assert VALUE not in page(hub) + hub.client.get("/secrets.json").text
    assert post(hub, do="remove", name="TOKEN")[0] == 303
    assert secrets_of(hub).find("TOKEN", "shelly") is None


def test_an_empty_field_keeps_the_servers_of_a_known_secret_and_only_the_tick_opens_it_to_all(hub: Hub) -> None:
    secrets = secrets_of(hub)
    secrets.put("TOKEN", "first", "local", ["shelly"])
    assert post(hub, do="set", name="TOKEN", value="second", servers="")[0] == 303
    assert secrets.find("TOKEN", "shelly") == "second"
    assert secrets.all()[0].entry.servers == ("shelly",)
    status, shown = post(hub, do="set", name="TOKEN", value=VALUE, servers="shelly", all="yes")
    assert (status, secrets.find("TOKEN", "shelly")) == (400, "second")
    assert "the form has both" in shown and VALUE not in shown
    assert post(hub, do="set", name="TOKEN", value="third", servers="", all="yes")[0] == 303
    assert secrets.find("TOKEN", "stranger") == "third"
    assert post(hub, do="set", name="NEW", value="value", servers="")[0] == 303
    assert secrets.find("NEW", "stranger") == "value"


def test_replace_in_a_row_fills_in_the_name_and_the_servers(hub: Hub) -> None:
    secrets_of(hub).put("TOKEN", VALUE, "local", ["shelly", "other"])
    link = re.search(r'href="([^"]+)" aria-label="Replace TOKEN"', page(hub))
    assert link is not None
    shown = hub.client.get(html.unescape(link[1]), headers={"Accept": "text/html"}).text
    assert 'value="TOKEN" autocomplete="off"' in shown
    assert 'value="other, shelly"' in shown
    assert VALUE not in shown


def test_a_server_that_names_a_secret_is_listed_before_its_first_use(hub: Hub) -> None:
    secrets_of(hub).put("TOKEN", VALUE, "local")
    (found,) = read_json(hub.client.get("/secrets.json"))["secrets"]
    assert found["used_by"] == [{"server": "shelly", "page": "/servers/shelly", "last_use": None}]


def test_a_refused_form_says_why_and_repeats_no_value(hub: Hub) -> None:
    for name in ("1 WRONG", "PATH", f"TOKEN={VALUE}"):
        status, shown = post(hub, do="set", name=name, value=VALUE)
        assert status == 400
        assert "expected letters" in shown or "the hub itself reads" in shown
        assert VALUE not in shown
    status, shown = post(hub, do="set", name="1 WRONG", value=VALUE, servers="shelly")
    assert VALUE not in shown
    assert 'value="shelly"' in shown
    assert post(hub, do="remove", name="ABSENT")[0] == 404


def test_only_an_administrator_sees_and_changes_secrets(tmp_path: Path) -> None:
    hub = Hub(tmp_path, access="shared")
    try:
        assert hub.client.get("/secrets.json").status_code == 401
        for fields in ({"do": "set", "name": "TOKEN", "value": VALUE}, {"do": "remove", "name": "TOKEN"}):
            assert hub.client.post("/secrets", data=fields).status_code in (401, 403)
        assert secrets_of(hub).all() == []
    finally:
        hub.close()
