"""A member opens an app whose page a denial covers, through a toolset that has the tool of the app.

Sources: SEP-1865 (MCP Apps), resource discovery; docs/toolsets.md, Apps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.kinds.toolset.sets import toolset
from tests.protocol.test_apps import APP, APPS, SAME_URI, configuration, definition

LEFT = "ui://left/card/view.html"
OUTER = "ui://desk/left/card/view.html"
FILES = {
    "left.py": definition("left"),
    "left.mcp.json": configuration("left"),
    "desk.json": toolset(tools={"look": "left.show"}, include=["left.refresh"]),
    "outer.json": toolset(tools={"again": "desk.look"}),
}
GRANTS = [{"to": ["*"], "may": ["call", "read"], "on": ["desk", "outer"]}]
SPELLINGS = (
    *(
        LEFT,
        SAME_URI,
        OUTER,
        "ui://left/card/../card/view.html",
        "ui://left/%63ard/view.html",
        "UI://left/card/view.html",
    ),
    *("ui://left/card/view.html?x=1", "ui://left/card/view.html/", "ui://outer/desk/left/card/view.html"),
)


@pytest.fixture(scope="module")
def people(hub: Hub) -> tuple[dict[str, str], dict[str, str]]:
    """The keys of ann, to whom something is denied, and of ben."""
    return new_key(hub, "ann"), new_key(hub, "ben")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("denied"), FILES)
    yield found
    found.close()


def read(hub: Hub, server: str, uri: str, who: dict[str, str], app: str | None = None) -> str:
    meta = {APP: app} if app is not None else None
    return json.dumps(hub.modern(server, "resources/read", {"uri": uri}, APPS, meta, headers=who).last)


@pytest.mark.parametrize("denied", ["left.ui://card/view.html", "left.ui://card/*", "left.ui://*", "left"])
def test_no_way_through_a_toolset_opens_an_app_that_is_denied_at_its_server(
    hub: Hub, people: tuple[dict[str, str], dict[str, str]], denied: str
) -> None:
    set_grants(hub, {"grants": GRANTS, "denials": [{"to": ["key:ann"], "on": [denied]}]})
    ann, ben = people
    for server, uri in (("desk", LEFT), ("outer", OUTER)):
        assert "<p>left" in read(hub, server, uri, ben)
        listed = [hub.modern(server, "resources/list", {}, APPS, headers=who).last for who in (ben, ann)]
        assert uri in json.dumps(listed[0]) and uri not in json.dumps(listed[1])
    for server in ("desk", "outer", ""):
        for uri in SPELLINGS:
            for app in (None, LEFT, OUTER):
                assert "<p>left" not in read(hub, server, uri, ann, app), (server, uri, app)


@pytest.mark.parametrize("denied", ["desk.ui://left/card/view.html", "desk.ui://left/*", "desk.ui://*"])
def test_a_denial_of_the_page_in_a_toolset_holds_there_and_in_toolsets_of_it(
    hub: Hub, people: tuple[dict[str, str], dict[str, str]], denied: str
) -> None:
    set_grants(hub, {"grants": GRANTS, "denials": [{"to": ["key:ann"], "on": [denied]}]})
    ann, _ = people
    for server in ("desk", "outer", ""):
        for uri in SPELLINGS:
            assert "<p>left" not in read(hub, server, uri, ann), (server, uri)


def test_a_tool_that_is_denied_is_not_called_by_its_app(
    hub: Hub, people: tuple[dict[str, str], dict[str, str]]
) -> None:
    set_grants(hub, {"grants": GRANTS, "denials": [{"to": ["key:ann"], "on": ["left.refresh"]}]})
    ann, ben = people
    params: dict[str, Any] = {"name": "refresh", "arguments": {}}
    said = [hub.modern("desk", "tools/call", params, APPS, {APP: LEFT}, headers=who).last for who in (ben, ann)]
    assert "left again" in json.dumps(said[0]) and "left again" not in json.dumps(said[1])
