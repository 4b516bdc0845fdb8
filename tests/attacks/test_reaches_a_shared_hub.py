"""A stranger tries to use a hub that other machines can reach, and the holder of a revoked key goes on using it.

Sources: ACCESS sections 1 and 2; issue 16 items 1 and 2.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from patchbay.web.openapi.routes import ALL_ROUTES
from tests.attacks.test_acts_as_the_operator import sent
from tests.attacks.test_reaches_a_personal_hub import CALL, POSTED
from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = pytest.mark.process

SIGN_IN = {
    "/login",
    "/login/password",
    "/login/passkey",
    "/logout",
    "/logout/person",
    "/invitation",
    "/invitation/passkey",
}
SERVED_TO_CLIENTS = {f"/oauth/{name}" for name in ("authorize", "token", "register", "revoke", "jwks")}
METADATA = "/.well-known/"
SIGN_IN_ELSEWHERE = {"/upstreams/callback/<issuer>", "/upstreams/client/<issuer>"}
"""The browser comes back from another site without the strict cookie (an unknown sign-in gets 403), and that site reads
the metadata of the hub as a client.
"""
PROVIDERS = {f"/sign-in/<provider>{rest}" for rest in ("", "/callback", "/backchannel-logout")}
"""The way to an identity provider of `--sign-in` and back; without one, each answers 404."""

OPEN = (
    SIGN_IN
    | SERVED_TO_CLIENTS
    | SIGN_IN_ELSEWHERE
    | PROVIDERS
    | {"/healthz", "/readyz", "/static/<path:filename>", "/favicon.ico"}
)
"""What a stranger reaches: health, sign-in, the routes and the metadata of the authorization server, styles."""

KEY_COMMAND = (sys.executable, "-m", "patchbay", "key")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    names = ("--allowed-hosts", "localhost,127.0.0.1,hub.example", "--workers", "2")
    with running(tmp_path_factory.mktemp("hub"), *names) as started:
        yield started


def key(hub: Hub, *arguments: str) -> str:
    """Run `patchbay key`; return its standard output."""
    command = [*KEY_COMMAND, *arguments, "--data", str(hub.folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_a_hub_with_the_name_of_another_machine_is_shared_and_says_how_to_begin(hub: Hub) -> None:
    line = hub.line_with("This hub is shared")
    assert "patchbay key new NAME" in line and "/access" in line


def test_a_stranger_gets_401_at_every_route(hub: Hub) -> None:
    places = [
        (row.method, row.path) for row in ALL_ROUTES if row.path not in OPEN and not row.path.startswith(METADATA)
    ]
    places += [("POST", "/mcp"), ("POST", "/mcp/echo"), ("GET", "/mcp/echo"), ("DELETE", "/mcp/echo"), ("POST", "/rpc")]
    places += [("GET", "/mcp/echo/sse"), ("POST", "/mcp/echo/messages?session=x"), ("PUT", "/rooms/x"), ("GET", "/ws")]
    places += [("GET", "/rooms/x/events"), ("GET", "/rooms/x/log"), ("POST", "/rooms/x/fork"), ("GET", "/rooms/x/ws")]
    places += [("POST", "/echo/echo"), ("GET", "/echo"), ("OPTIONS", "/mcp/echo"), ("HEAD", "/"), ("GET", "/nowhere")]
    assert len(places) > 60
    for method, path in places:
        for headers in (POSTED, POSTED | {"Authorization": "Bearer patchbay_key_x"}, POSTED | {"Cookie": "a=b"}):
            status, answer, text = sent(hub.port, method, path.replace("<", "").replace(">", ""), CALL, headers)
            assert status in (401, 429), (method, path, status, text[:200])
            if status == 401:
                assert answer["www-authenticate"].startswith("Bearer"), path
    for path in ("/healthz", "/readyz", "/login", "/static/style.css"):
        assert sent(hub.port, "GET", path)[0] == 200, path


def test_a_key_works_in_every_worker_until_it_is_revoked(hub: Hub) -> None:
    """The commands work while the hub runs; a revoked key is refused by both workers."""
    token = key(hub, "new", "ann")
    headers = POSTED | {"Authorization": f"Bearer {token}"}
    for _ in range(20):  # each connection reaches either worker
        assert sent(hub.port, "POST", "/mcp/echo", CALL, headers)[0] == 200
    assert "ann" in key(hub, "list") and token not in key(hub, "list")
    key(hub, "revoke", "ann")

    def refused() -> bool:
        return all(sent(hub.port, "POST", "/mcp/echo", CALL, headers)[0] in (401, 429) for _ in range(20))

    until(refused, "both workers refuse the key")
    assert token not in "".join(hub.lines)


def test_grants_count_in_every_worker(hub: Hub) -> None:
    headers = POSTED | {"Authorization": f"Bearer {key(hub, 'new', 'ben')}"}
    document = orjson.dumps({"grants": [{"to": ["key:ben"], "may": ["call"], "on": ["date"]}]})
    assert sent(hub.port, "POST", "/mcp/echo", CALL, headers)[0] == 200
    assert sent(hub.port, "PUT", "/variables/access", document, hub.as_operator())[0] == 201

    def hidden() -> bool:
        return all(sent(hub.port, "POST", "/mcp/echo", CALL, headers)[0] == 404 for _ in range(20))

    until(hidden, "both workers hide the server")
    assert sent(hub.port, "POST", "/mcp/echo", CALL, POSTED | hub.as_operator())[0] == 200
    assert sent(hub.port, "DELETE", "/variables/access", b"", hub.as_operator())[0] == 200


def test_a_stranger_behind_a_proxy_of_a_personal_hub_needs_a_key(tmp_path: Path) -> None:
    """A request through a proxy means shared access, also where nothing is configured."""
    with running(tmp_path) as personal:
        proxied = POSTED | {"X-Forwarded-For": "192.0.2.7"}
        assert sent(personal.port, "POST", "/mcp/echo", CALL, POSTED)[0] == 200
        assert sent(personal.port, "POST", "/mcp/echo", CALL, proxied)[0] == 401
        known = proxied | {"Authorization": f"Bearer {key(personal, 'new', 'far')}"}
        assert sent(personal.port, "POST", "/mcp/echo", CALL, known)[0] == 200
