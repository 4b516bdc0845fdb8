"""A secret changes while servers use it: the next connection has it, and no running call is lost. Issue 56, 1."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.kinds.openapi.standing_api import StandingApi
from patchbay.upstreams.connections.standing_connection import StandingConnection
from tests.access.secrets.keyed_api import keyed_api
from tests.access.secrets.keyed_mounts import digest_of, health_of, program_mount, secrets_of, wait_until_up
from tests.client.bad import Bad, Handler, Json, serving
from tests.hubs import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path / "hub", {"far.json": program_mount()}, access="personal")
    yield hub
    hub.close()


def digest(hub: Hub, name: str = "far") -> str:
    return hub.call(name, "digest").text


def test_a_mount_without_its_secret_says_what_to_do_and_starts_when_the_secret_is_stored(hub: Hub) -> None:
    until(lambda: health_of(hub, "far").state == "down", "the mount to miss its secret")
    assert "patchbay secret set TOKEN" in health_of(hub, "far").sentence
    secrets_of(hub).put("TOKEN", "first value", "local")
    wait_until_up(hub, "far")
    assert digest(hub) == digest_of("first value")


def test_a_call_that_runs_ends_with_the_old_value_and_the_next_one_has_the_new_value(hub: Hub, tmp_path: Path) -> None:
    secrets_of(hub).put("TOKEN", "old value", "local")
    wait_until_up(hub, "far")
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: hub.call("far", "wait_for", {"file": str(gate)}).text)
        until(lambda: hub.activity.running, "the call to run")
        secrets_of(hub).put("TOKEN", "new value", "local")
        until(lambda: digest(hub) == digest_of("new value"), "a connection with the new value")
        assert not running.done()
        gate.touch()
        assert running.result(BOUND) == digest_of("old value")


def test_an_old_connection_shows_no_value_from_before_the_last_change(hub: Hub, tmp_path: Path) -> None:
    secrets_of(hub).put("TOKEN", "value number 0", "local")
    wait_until_up(hub, "far")
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: hub.call("far", "wait_for", {"file": str(gate)}).text)
        until(lambda: hub.activity.running, "the call to run")
        for number in (1, 2, 3):
            secrets_of(hub).put("TOKEN", f"value number {number}", "local")
            until(lambda number=number: digest(hub) == digest_of(f"value number {number}"), "it")  # type: ignore[misc]
        standing = hub.catalogue.find("far").standing
        assert isinstance(standing, StandingConnection)
        assert "value number" not in standing.mask("value number 0, value number 1, value number 2, value number 3")
        gate.touch()
        assert running.result(BOUND) == digest_of("value number 0")


def test_a_changed_secret_refuses_no_call_at_the_session_limit(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub", {"far.json": program_mount(session_limit=1)}, access="personal")
    try:
        secrets_of(hub).put("TOKEN", "old value", "local")
        wait_until_up(hub, "far")
        session, gate = hub.open("far"), tmp_path / "gate"

        def call(tool: str, **arguments: str) -> str:
            return hub.legacy("far", "tools/call", {"name": tool, "arguments": arguments}, session).text

        assert call("digest") == digest_of("old value")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(call, "wait_for", file=str(gate))
            until(lambda: hub.activity.running, "the call to run")
            secrets_of(hub).put("TOKEN", "new value", "local")
            texts = [call("digest")]

            def has_changed() -> bool:
                texts.append(call("digest"))
                return texts[-1] != digest_of("old value")

            until(has_changed, "another answer than the old value")
            gate.touch()
            assert running.result(BOUND) == digest_of("old value")
        assert texts[-1] == digest_of("new value")
    finally:
        hub.close()


def test_a_session_gets_a_new_connection_and_is_told_why_its_state_is_gone(hub: Hub) -> None:
    secrets_of(hub).put("TOKEN", "old value", "local")
    wait_until_up(hub, "far")
    session = hub.open("far")
    assert hub.legacy("far", "tools/call", {"name": "digest"}, session).text == digest_of("old value")
    secrets_of(hub).put("TOKEN", "new value", "local")

    told: list[str] = []

    def has_new_value() -> bool:
        answer = hub.legacy("far", "tools/call", {"name": "digest"}, session)
        told.extend(str(one.get("params")) for one in answer.messages[:-1])
        return answer.text == digest_of("new value")

    until(has_new_value, "the new value")
    assert "a secret of its configuration has changed" in " ".join(told)


def test_a_removed_secret_takes_the_mount_down(hub: Hub) -> None:
    secrets_of(hub).put("TOKEN", "value", "local")
    wait_until_up(hub, "far")
    secrets_of(hub).remove("TOKEN")
    until(lambda: health_of(hub, "far").state == "down", "the mount to lose its secret")
    assert hub.call("far", "digest").result["isError"]


def wait_for_digest(hub: Hub, wanted: str) -> None:
    """Wait until both servers of a definition have the secret."""
    until(lambda: {hub.call(name, name).text.strip() for name in ("shelly", "snake")} == {wanted}, wanted)


def test_the_shell_and_python_servers_of_a_hub_have_its_secrets(tmp_path: Path) -> None:
    config = json.dumps({"auto_discover": True, "environment": {"TOKEN": "${TOKEN}"}})
    hub = Hub(
        tmp_path / "hub",
        {
            "shelly.sh": '#!/bin/sh\nprintf %s "$TOKEN" | sha256sum | cut -c1-64\n',
            "shelly.mcp.json": config,
            "snake.py": (
                "import os\nfrom hashlib import sha256\n\n\ndef main() -> str:\n"
                '    """Hash it."""\n    return sha256(os.environ["TOKEN"].encode()).hexdigest()\n'
            ),
            "snake.mcp.json": config,
        },
    )
    try:
        missing = hub.call("snake", "snake").text + hub.call("shelly", "shelly").text
        assert missing.count("patchbay secret set TOKEN") == 2
        for value in ("first value", "second value"):
            secrets_of(hub).put("TOKEN", value, "local")
            wait_for_digest(hub, digest_of(value))
    finally:
        hub.close()


def answer_call(handler: Handler, body: Json) -> None:
    """Answer a call; the test reads the header of its request."""
    result = {"content": [{"type": "text", "text": "answered"}]}
    handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})


def answer_lists(handler: Handler, body: Json) -> bool:
    result = {"tools/list": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}, "ping": {}}.get(
        body["method"]
    )
    if result is not None:
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})
    return result is not None


def last_key(server: Bad) -> str:
    return next(headers.get("x-key", "") for _, _, headers in reversed(server.got) if "x-key" in headers)


def test_the_header_of_a_server_at_a_url_and_a_file_of_the_secrets_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "FAR_KEY").write_text("from-a-file\n")
    with serving() as serve:
        server = serve(answer_call, answer_lists)
        fields = {"kind": "upstream", "address": server.url, "era": "legacy", "headers": {"X-Key": "${FAR_KEY}"}}
        hub = Hub(tmp_path / "hub", {"far.json": json.dumps(fields)}, secrets_dir=str(folder))
        try:
            wait_until_up(hub, "far")
            assert hub.call("far", "x").text == "answered"
            assert last_key(server) == "from-a-file"
            (folder / "FAR_KEY").write_text("changed-file\n")
            until(lambda: hub.call("far", "x").text == "answered" and last_key(server) == "changed-file", "the file")
            secrets_of(hub).put("FAR_KEY", "stored-value", "local")
            until(lambda: hub.call("far", "x").text == "answered" and last_key(server) == "stored-value", "the store")
        finally:
            hub.close()


def shop_hub(folder: Path, base: str) -> Hub:
    """A hub with the HTTP API at this URL, whose key is a secret."""
    credentials = {"key": "${API_KEY}"}
    fields = {"kind": "openapi", "document": f"{base}/openapi.json", "base": base, "credentials": credentials}
    return Hub(folder / "hub", {"shop.json": json.dumps(fields)})


def test_an_http_api_uses_the_new_value_from_its_next_request_on(tmp_path: Path) -> None:
    seen: list[str] = []
    with keyed_api(seen) as base:
        hub = shop_hub(tmp_path, base)
        try:
            secrets_of(hub).put("API_KEY", "old-api-key", "local", ["shop"])
            wait_until_up(hub, "shop")
            until(lambda: hub.catalogue.find("shop").tools, "its tools")
            assert not hub.call("shop", "order").result.get("isError")
            assert seen[-1] == "old-api-key"
            secrets_of(hub).put("API_KEY", "new-api-key", "local")
            until(
                lambda: not hub.call("shop", "order").result.get("isError") and seen[-1] == "new-api-key", "the new key"
            )
            assert set(seen) == {"old-api-key", "new-api-key"}
        finally:
            hub.close()


def test_a_call_of_an_http_api_shows_no_value_that_it_was_started_with(tmp_path: Path) -> None:
    seen: list[str] = []
    gate = threading.Event()
    with keyed_api(seen, lambda: gate.wait(BOUND)) as base, ThreadPoolExecutor(1) as pool:
        hub = shop_hub(tmp_path, base)
        try:
            secrets_of(hub).put("API_KEY", "api-key-0", "local")
            wait_until_up(hub, "shop")
            until(lambda: hub.catalogue.find("shop").tools, "its tools")
            standing = hub.catalogue.find("shop").standing
            assert isinstance(standing, StandingApi)
            running = pool.submit(hub.call, "shop", "order")
            until(lambda: seen, "the request")
            for number in (1, 2, 3):
                secrets_of(hub).put("API_KEY", f"api-key-{number}", "local")
                until(lambda number=number: f"api-key-{number}" in standing.secrets, "it")  # type: ignore[misc]
            gate.set()
            text = running.result(BOUND).text
            assert "may not order" in text
            assert seen == ["api-key-0"]
            assert "api-key" not in text
        finally:
            gate.set()
            hub.close()
