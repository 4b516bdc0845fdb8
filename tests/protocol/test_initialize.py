"""The handshake of the legacy revisions, and discovery in 2026-07-28."""

from __future__ import annotations

import pytest

from patchbay.messages.versions import LEGACY
from tests.hubs import Hub

HELLO = {"capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


def test_initialize_gives_server_info_and_capabilities(zoo: Hub) -> None:
    """T3.1, VWR-10, VWR-9."""
    result = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": "2025-11-25"}, version=None).result
    assert result["serverInfo"]["name"] == "zoo"
    assert result["instructions"] == "Look, do not feed."
    assert result["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("version", LEGACY)
def test_a_known_version_is_taken_as_asked(zoo: Hub, version: str) -> None:
    """T3.2, X-1."""
    result = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": version}, version=None).result
    assert result["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2026-07-28", "1.0", "", "2099-01-01"])
def test_any_other_version_gets_the_newest_that_has_a_handshake(zoo: Hub, version: str) -> None:
    """T3.2, SUB-C2."""
    result = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": version}, version=None).result
    assert result["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [HELLO, HELLO | {"protocolVersion": 5}])
def test_a_missing_version_is_an_error(zoo: Hub, params: dict[str, object]) -> None:
    """SUB-9, SUB-C2."""
    answer = zoo.legacy("zoo", "initialize", params, version=None)
    assert answer.error["code"] == -32602


def test_tools_resources_and_prompts_are_declared(zoo: Hub) -> None:
    """SUB-10, T3.3: and nothing that the revision does not know."""
    new = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": "2025-11-25"}, version=None).result
    old = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": "2024-11-05"}, version=None).result
    assert {"tools", "resources", "prompts", "logging", "completions"} == set(new["capabilities"])
    assert "completions" not in old["capabilities"]
    assert new["capabilities"]["tools"] == {"listChanged": True}


def test_a_second_initialize_of_a_session_gives_the_same_state(zoo: Hub) -> None:
    """T3.4, V-C11, VWR-11."""
    session = zoo.open("zoo", "2025-06-18")
    again = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": "2025-11-25"}, session=session, version=None)
    assert again.headers["Mcp-Session-Id"] == session
    assert again.result["protocolVersion"] == "2025-06-18"


def test_discover_names_the_modern_versions_and_the_server_in_meta(zoo: Hub) -> None:
    """SPEC-DIGEST 1.7."""
    answer = zoo.modern("zoo", "server/discover")
    assert answer.status == 200
    assert answer.result["supportedVersions"] == ["2026-07-28"]
    assert answer.result["resultType"] == "complete"
    assert answer.result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "zoo"
    assert "serverInfo" not in answer.result
    assert (answer.result["ttlMs"], answer.result["cacheScope"]) == (0, "private")
    assert "Mcp-Session-Id" not in answer.headers


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
def test_methods_removed_in_2026_07_28_do_not_exist_there(zoo: Hub, method: str) -> None:
    answer = zoo.modern("zoo", method, id=9)
    assert (answer.status, answer.error["code"], answer.last["id"]) == (404, -32601, 9)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
def test_methods_added_in_2026_07_28_do_not_exist_before(zoo: Hub, method: str) -> None:
    assert zoo.legacy("zoo", method).error["code"] == -32601


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("id", ["unknown", "", "ended", "of another server", "x" * 300])
def test_initialize_with_a_stale_session_id_is_answered(zoo: Hub, version: str, id: str) -> None:
    """Issue 50 item 13: a client that begins anew may still send the id of the session that it lost."""
    if id == "ended":
        id = zoo.open("zoo")
        zoo.client.delete("/mcp/zoo", headers={"Mcp-Session-Id": id, "Host": "localhost"})
    elif id == "of another server":
        id = zoo.open("echo")
    answer = zoo.legacy("zoo", "initialize", HELLO | {"protocolVersion": version}, session=id, version=None)
    assert answer.status == 200 and answer.result["protocolVersion"] == version
    fresh = answer.headers["Mcp-Session-Id"]
    assert fresh != id
    assert zoo.legacy("zoo", "ping", {}, session=fresh, version=version).result == {}


@pytest.mark.parametrize("method", ["ping", "tools/list"])
def test_other_requests_with_a_stale_session_id_are_still_refused(zoo: Hub, method: str) -> None:
    answer = zoo.legacy("zoo", method, {}, session="unknown")
    assert answer.status == 404 and "initialize" in answer.error["message"]
