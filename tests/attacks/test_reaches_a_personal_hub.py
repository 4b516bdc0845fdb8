"""A stranger tries to use a hub that is meant for its own machine: from the network, or through a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.test_acts_as_the_operator import sent
from tests.serving.running import Hub, refused, running

pytestmark = pytest.mark.process

PROXIES = [
    {"Forwarded": "for=192.0.2.7"},
    {"Via": "1.1 proxy"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-Host": "hub.example"},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Server": "hub.example"},
    {"X-Real-IP": "192.0.2.7"},
    {"CF-Connecting-IP": "192.0.2.7"},
]
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "x"}}}'
POSTED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


PAGES = ("/", "/mcp", "/servers/echo")
"""The pages with lines to copy."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("hub")) as started:
        yield started


@pytest.mark.parametrize("proxy", PROXIES, ids=lambda one: next(iter(one)))
def test_through_a_proxy_nothing_is_called_and_nothing_is_seen(hub: Hub, proxy: dict[str, str]) -> None:
    assert sent(hub.port, "POST", "/mcp/echo", CALL, POSTED)[0] == 200
    for path in ("/mcp/echo", "/mcp", "/rpc", "/echo/echo"):
        status, headers, text = sent(hub.port, "POST", path, CALL, POSTED | proxy)
        assert (status, "came through a proxy" in text) == (401, True), path
        assert headers["www-authenticate"].startswith("Bearer")
    for path in ("/", "/servers", "/activity.json", "/history/names", "/metrics", "/openapi.json", "/cid/x"):
        assert sent(hub.port, "GET", path, b"", proxy)[0] == 401, path
    assert sent(hub.port, "GET", "/readyz", b"", proxy)[0] == 200
    assert sent(hub.port, "POST", "/mcp/echo", CALL, POSTED | proxy | hub.as_operator())[0] == 200


@pytest.mark.parametrize("arguments", [("--host", "0.0.0.0"), ("--allowed-hosts", "localhost,hub.example")])
def test_a_personal_hub_that_the_network_could_reach_does_not_start(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = refused(tmp_path, *arguments, "--access", "personal")
    assert ended.returncode == 2
    messages = [line for line in ended.stderr.splitlines() if line.startswith("patchbay:")]
    assert len(messages) == 1
    assert arguments[0] in messages[0] and "leave --access out for a shared hub" in messages[0]


def test_a_way_of_access_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    ended = refused(tmp_path, "--access", "secret")
    assert ended.returncode == 2
    assert "expected one of auto, personal, shared, open; got 'secret'" in ended.stderr


def test_an_open_hub_serves_strangers_who_change_nothing(tmp_path: Path) -> None:
    proxy = {"X-Forwarded-For": "192.0.2.7", "Host": "hub.example"}
    with running(tmp_path, "--access", "open", "--allowed-hosts", "localhost,127.0.0.1,hub.example") as hub:
        assert sent(hub.port, "POST", "/mcp/echo", CALL, POSTED | proxy)[0] == 200
        assert (
            "everyone who can reach this hub"
            in sent(hub.port, "GET", "/servers", b"", {"Accept": "text/html"} | proxy)[2]
        )
        assert sent(hub.port, "PUT", "/variables/stolen", b"1", proxy)[0] == 401
        assert hub.line_with("everyone who can reach this hub")
        for page in PAGES:
            for stranger in ({}, proxy, {"X-Forwarded-For": "192.0.2.7"}):
                text = sent(hub.port, "GET", page, b"", {"Accept": "text/html"} | stranger)[2]
                assert "claude mcp add" in text
                assert str(tmp_path) not in text, page
            assert str(tmp_path) in sent(hub.port, "GET", page, b"", {"Accept": "text/html"} | hub.as_operator())[2]


def test_a_personal_hub_shows_its_folders_on_its_own_machine_only(hub: Hub) -> None:
    """The line that starts `patchbay stdio` names the folders of the hub."""
    for page in PAGES:
        for headers, shown in (({}, True), ({"Via": "1.1 proxy"}, False)):
            text = sent(hub.port, "GET", page, b"", {"Accept": "text/html"} | headers)[2]
            assert (str(hub.folder) in text) is shown, (page, headers)
