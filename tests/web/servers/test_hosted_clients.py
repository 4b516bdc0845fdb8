"""The page *Connect* says what the hub lacks for ChatGPT and claude.ai."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchbay.settings import Settings
from patchbay.web.servers.hosted_clients import is_public_name, list_missing
from tests.hubs import Hub
from tests.web.inspecting import page_text

READY: dict[str, Any] = {
    "access": "shared",
    "public_url": "https://hub.example.org",
    "allowed_hosts": ("127.0.0.1", "hub.example.org"),
}


def missing(base: str = "http://127.0.0.1:8000", **changes: Any) -> list[str]:
    """The first words of each sentence."""
    return [each.partition(":")[0] for each in list_missing(Settings(**(READY | changes)), base)]


def test_a_hub_with_a_public_https_name_and_sign_in_lacks_nothing() -> None:
    assert missing() == []
    assert missing("https://hub.example.org", public_url="") == []


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"public_url": "http://hub.example.org"}, ["An https address"]),
        ({"public_url": ""}, ["An https address", "A public name"]),
        ({"public_url": "https://hub.lan", "allowed_hosts": ("hub.lan",)}, ["A public name"]),
        ({"allowed_hosts": ("127.0.0.1",)}, ["The name among those that it serves"]),
        ({"access": "open"}, ["Sign-in"]),
        ({"issuer": "https://id.example.org"}, ["Sign-in at this hub"]),
        ({"access": "personal", "allowed_hosts": ("127.0.0.1", "hub.example.org")}, ["Sign-in"]),
    ],
)
def test_each_thing_that_is_missing_is_named(changes: dict[str, Any], lacks: list[str]) -> None:
    assert missing(**changes) == lacks


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.1", "192.168.1.2", "100.64.0.1", "hub", "::1", "a.local"]
)
def test_a_name_of_this_machine_or_network_is_not_public(host: str) -> None:
    assert not is_public_name(host)
    assert is_public_name("hub.example.org") and is_public_name("8.8.8.8")


def test_the_page_names_what_a_personal_hub_lacks_and_a_ready_hub_gets_the_steps(tmp_path: Path) -> None:
    personal = Hub(tmp_path / "personal")
    ready = Hub(tmp_path / "ready", **READY | {"allowed_hosts": ("localhost", "hub.example.org")})
    try:
        found = personal.client.get("/mcp", headers={"Accept": "text/html"}).text
        assert "This hub lacks:" in found and "--access shared" in found
        assert "`" not in page_text(found)
        as_json = personal.client.get("/mcp.json").json
        assert as_json is not None and len(as_json["hosted"]) == 3
        headers = {"Authorization": f"Bearer {ready.token}", "Accept": "text/html"}
        page = ready.client.get("/mcp", headers=headers).text
        assert "Add custom connector" in page and "This hub lacks" not in page
    finally:
        personal.close()
        ready.close()


def test_the_page_has_the_servers_of_the_user_first_and_marks_those_that_ship_with_the_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"zebra.py": "def f() -> str:\n    return 'x'\n"})
    try:
        page = hub.client.get("/mcp", headers={"Accept": "text/html"}).text
        table = page.partition('id="servers"')[2]
        rows = [row.partition("</th>")[0] for row in table.split('<th scope="row">')[1:]]
        assert ">zebra<" in rows[0] and "built in" not in rows[0]
        assert all("built in" in row for row in rows[1:]) and len(rows) > 1
    finally:
        hub.close()
