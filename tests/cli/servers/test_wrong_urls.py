"""URLs at which no MCP server answers: what a new user is told, beside a running hub and without one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay import exit_codes
from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.hubs import Hub as InnerHub
from tests.interaction.programs import free_port
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process

MESSAGE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module", autouse=True)
def no_proxy() -> Iterator[None]:
    """No proxy of this machine: the words are those of the URL itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hub."""
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A running hub."""
    with running(folder, "--servers", str(folder / "servers")) as started:
        yield started


def inspect(folder: Path, url: str) -> Ended:
    """Inspect a URL at which no MCP server answers."""
    ended = run_command(folder, "inspect", url)
    assert ended.code == exit_codes.UNREACHABLE, ended.out
    return ended


def test_a_mistyped_server_of_a_hub_gets_the_nearest_name_and_no_word_about_http_apis(folder: Path, hub: Hub) -> None:
    said = inspect(folder, f"http://127.0.0.1:{hub.port}/mcp/ehco").err
    assert "answers HTTP 404" in said
    assert "It says: there is no server 'ehco'; did you mean echo?" in said
    assert "openapi+" not in said


@pytest.mark.parametrize("ending", ["", "/"])
def test_the_root_of_a_host_gets_the_path_of_most_mcp_servers(folder: Path, hub: Hub, ending: str) -> None:
    root = f"http://127.0.0.1:{hub.port}"
    said = inspect(folder, f"{root}{ending}").err
    assert "it answers with a page for browsers; the path of most MCP servers is /mcp" in said
    assert f" {root}/mcp;" in said


def test_https_at_a_port_of_plain_http_says_to_write_http(folder: Path, hub: Hub) -> None:
    said = inspect(folder, f"https://127.0.0.1:{hub.port}/mcp").err
    assert "it does not speak TLS at this port; for plain HTTP, write http:// in place of https://" in said


def test_a_port_without_a_server_is_called_so(folder: Path) -> None:
    said = inspect(folder, f"http://127.0.0.1:{free_port()}/mcp").err
    assert "the connection was refused, so no server listens at this port" in said


def test_a_proxy_that_does_not_answer_is_named(folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    said = inspect(folder, f"http://127.0.0.1:{hub.port}/mcp").err
    assert "requests go through the proxy of HTTP_PROXY, except to the hosts of NO_PROXY" in said


def test_a_name_without_an_address_is_called_so(folder: Path) -> None:
    assert "the name of its host has no address" in inspect(folder, "http://no-such-host.invalid/mcp").err


@pytest.mark.parametrize("path", ["/", "/sse", "/servers", "/servers/echo"])
def test_an_mcp_client_that_posts_to_another_page_is_told_the_addresses(hub: Hub, path: str) -> None:
    root = f"http://127.0.0.1:{hub.port}"
    request = urllib.request.Request(f"{root}{path}", MESSAGE, HEADERS)
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
        pass
    with refused.value as answer:
        said = json.loads(answer.read())["error"]
    assert f"MCP clients use {root}/mcp for all servers, {root}/mcp/NAME for one server" in said


def test_an_mcp_client_behind_a_proxy_with_tls_is_told_addresses_with_https(tmp_path: Path) -> None:
    own = InnerHub(tmp_path, allowed_hosts=("hub.example.org",)).as_operator()
    try:
        headers = {**HEADERS, "Host": "hub.example.org", "X-Forwarded-Proto": "https"}
        answer = own.client.post("/sse", data=MESSAGE, headers=headers)
        assert "MCP clients use https://hub.example.org/mcp for all servers" in answer.get_json()["error"]
    finally:
        own.close()
