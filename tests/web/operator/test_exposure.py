"""Who may reach a hub: its own machine, the operator through a proxy, and strangers only where open access is said.

Sources: ACCESS section 1; issue 11 items 1 and 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.servers.rows import PATHS, name_problem
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.web.openapi.routes import ALL_ROUTES
from tests.hubs import Hub
from tests.web.browsing import BROWSER
from tests.web.operator.test_operators import exposed, hub, link_of, put

__all__ = ["exposed", "hub"]


@pytest.mark.parametrize(
    "name",
    ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-IP"],
)
def test_a_hub_in_personal_mode_serves_only_its_operator_through_a_proxy(hub: Hub, name: str) -> None:
    proxied = {name: "127.0.0.1"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert "came through a proxy" in hub.send("echo", call, proxied).error["message"]
    for path in ("/mcp/echo", "/rpc"):
        assert hub.client.post(path, json=call, headers=proxied).status_code == 401
    for path in ("/", "/servers", "/activity.json", "/metrics", "/echo/echo", "/cid/x", "/mcp", "/openapi.json"):
        assert hub.client.get(path, headers=proxied | {"Accept": "*/*"}).status_code == 401, path
        shown = hub.client.get(path, headers=proxied | BROWSER)
        assert shown.status_code == 303 and shown.headers["Location"].startswith("/login?next=/"), path
    for path in ("/healthz", "/readyz", "/login", "/static/style.css"):
        with hub.client.get(path, headers=proxied) as answer:
            assert answer.status_code == 200, path
    token = {"Authorization": f"Bearer {hub.token}"}
    assert hub.send("echo", call, proxied | token).result["tools"]
    assert hub.client.get(link_of(hub), headers=proxied).status_code == 303


def test_a_hub_in_personal_mode_serves_no_other_machine(hub: Hub) -> None:
    """Another web server than the hub's own may listen elsewhere than `host` says."""
    away = hub.client.get("/servers", environ_overrides={"REMOTE_ADDR": "192.0.2.7"})
    assert away.status_code == 401


def test_an_open_hub_serves_strangers_and_says_so_on_every_page(exposed: Hub) -> None:
    proxied = BROWSER | {"X-Forwarded-For": "192.0.2.7"}
    for path in ("/", "/servers", "/login", "/nowhere"):
        assert (
            "everyone who can reach this hub can read its pages and call its tools"
            in exposed.client.get(path, headers=proxied).text
        )
    assert put(exposed, X_Forwarded_For="192.0.2.7").status_code == 401


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"host": "0.0.0.0"}, "--host"),
        ({"host": "192.0.2.1"}, "--host"),
        ({"host": "::"}, "--host"),
        ({"host": ""}, "--host"),
        ({"allowed_hosts": ("localhost", "hub.example")}, "--allowed-hosts"),
        ({"allowed_hosts": ("hub.example:443",)}, "--allowed-hosts"),
    ],
)
def test_a_personal_hub_that_other_machines_could_reach_does_not_start(
    tmp_path: Path, settings: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError, match=f"{where}.*leave --access out for a shared hub") as caught:
        Hub(tmp_path, **settings, access="personal")
    assert "\n" not in caught.value.message
    for access in ("auto", "shared", "open"):
        Hub(tmp_path, **settings, access=access).close()
    assert Settings(**settings).mode == "shared"


@pytest.mark.parametrize("prefix", ["/mcp", "/servers/hub", "/Static", "/settings", "/schedules/hub", "/Audit"])
def test_a_path_prefix_that_is_a_path_of_the_hub_is_refused(tmp_path: Path, prefix: str) -> None:
    """Behind a proxy that strips the prefix, `/servers/echo` could mean two pages."""
    with pytest.raises(ConfigError, match="is a path of the hub: take /hub"):
        Hub(tmp_path, path_prefix=prefix)


def test_the_paths_of_the_hub_are_those_of_its_routes() -> None:
    """They are written a second time, so that the start of a hub loads no page."""
    begins = {route.path.split("/")[1] for route in ALL_ROUTES}
    assert {one for one in begins if one and one[0] != "<"} == PATHS


def test_no_server_has_the_name_of_a_path_of_the_hub(hub: Hub) -> None:
    """A page of the hub would stand where its tools are called over plain HTTP."""
    rules = {rule.rule.split("/")[1] for rule in hub.app.url_map.iter_rules()}
    begins = {one for one in (*PATHS, *rules) if one and "<" not in one}
    assert "settings" in begins and "static" in begins
    assert [one for one in sorted(begins) if name_problem(one) is None] == []
