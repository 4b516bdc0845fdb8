"""A client without a person signs in at oidc-provider, for a server of the official SDK: by command and by mount."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.patchbay import main
from tests.access.upstreams.guarded import Guarded, subject_of
from tests.hubs import Hub
from tests.waiting import until

SECRET = "robot-secret"


def address_of(url: str, issuer: str, **keys: str) -> str:
    """The address of a server with the keys of a sign-in."""
    pairs = {"sign_in": "client-credentials", "issuer": issuer, **keys}
    return f"mcp+{url}?" + "&".join(f"launch.{key}={quote(value, safe='')}" for key, value in pairs.items())


def call(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str = "whoami") -> tuple[int, str]:
    """Run `patchbay call ADDRESS TOOL` with the secret in a variable; return the exit code and everything it wrote."""
    environment = {"XDG_CONFIG_HOME": folder, "ROBOT": SECRET, "PATCHBAY_DATA": folder / "data"}
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    done = CliRunner().invoke(main, ["call", address, tool])
    return done.exit_code, done.output


def write_key(guarded: Guarded, folder: Path) -> str:
    path = folder / "key.pem"
    path.write_bytes(guarded.issuer.keys[0].as_pem(private=True))
    return str(path)


@pytest.mark.process
@pytest.mark.node
def test_a_command_signs_in_with_a_secret_and_stores_the_token_for_its_user_only(
    tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of(guarded.url, guarded.issuer.url, client_id="robot", client_secret="${ROBOT}")
    code, output = call(address, tmp_path, monkeypatch)
    assert (code, json.loads(output)["text"]) == (0, "robot")
    files = list((tmp_path / "patchbay/tokens").glob("*.json"))
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600]
    assert SECRET not in files[0].read_text("utf-8")
    before = guarded.issuer.count("/token")
    assert call(address, tmp_path, monkeypatch)[0] == 0
    assert guarded.issuer.count("/token") == before  # the stored token
    stored = json.loads(files[0].read_bytes())
    stored["tokens"]["access_token"] = "revoked"
    files[0].write_text(json.dumps(stored), "utf-8")
    assert call(address, tmp_path, monkeypatch)[0] == 0
    assert guarded.issuer.count("/token") == before + 1  # after a 401, once


@pytest.mark.process
@pytest.mark.node
def test_a_command_signs_in_with_a_private_key(
    tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = write_key(guarded, tmp_path)
    address = address_of(guarded.url, guarded.issuer.url, client_id="signer", client_key=key)
    code, output = call(address, tmp_path, monkeypatch)
    assert (code, json.loads(output)["text"]) == (0, "signer")


@pytest.mark.process
@pytest.mark.node
def test_a_wrong_secret_is_an_error_that_does_not_show_it(
    tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of(guarded.url, guarded.issuer.url, client_id="signer", client_secret="${ROBOT}")
    code, output = call(address, tmp_path, monkeypatch)
    assert code != 0
    assert "signing in failed" in output
    assert SECRET not in output


@pytest.mark.process
@pytest.mark.node
def test_a_hub_signs_in_at_a_mounted_server(tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ROBOT", SECRET)
    address = address_of(guarded.url, guarded.issuer.url, client_id="robot", client_secret="${ROBOT}")
    hub = Hub(tmp_path / "hub", files={"far.json": json.dumps({"kind": "upstream", "address": address})})
    try:
        until(lambda: "whoami" in hub.catalogue.find("far").tools, "the tools of the mounted server")
        assert hub.call("far", "whoami").result["content"][0]["text"] == "robot"
        assert subject_of(guarded.tokens()[-1]) == "robot"
    finally:
        hub.close()


@contextmanager
def recording_server(answers: Mapping[str, tuple[int, Mapping[str, str], object]]) -> Iterator[tuple[str, list[str]]]:
    """A web server that answers its paths, others with 401; it yields its URL and the requests."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            seen.append(f"{self.command} {self.path} {dict(self.headers)} {body}")
            status, headers, data = answers.get(self.path, (401, {}, {}))
            content = json.dumps(data).encode().replace(b"SELF", url.encode())
            self.send_response(status)
            for name, value in {
                **headers,
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield url, seen
        finally:
            server.shutdown()
            thread.join()


def metadata_of(issuer: str, token_endpoint: str) -> object:
    """Metadata of an authorization server (RFC 8414)."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/auth",
        "token_endpoint": token_endpoint,
        "response_types_supported": ["code"],
    }


@pytest.mark.parametrize("is_named", [True, False])
def test_a_server_that_leads_to_another_authorization_server_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    """The evil server names itself as the authorization server, or describes the right issuer with its own endpoint."""
    issuer = "http://127.0.0.1:9"
    described = {"resource": "SELF/mcp", "authorization_servers": ["SELF"]}
    answers: dict[str, tuple[int, Mapping[str, str], object]] = {
        "/.well-known/oauth-protected-resource/mcp": (200, {}, described) if is_named else (404, {}, {}),
        "/.well-known/oauth-protected-resource": (404, {}, {}),
        "/.well-known/oauth-authorization-server": (
            200,
            {},
            metadata_of("SELF" if is_named else issuer, "SELF/token"),
        ),
    }
    with recording_server(answers) as (url, seen):
        address = address_of(f"{url}/mcp", issuer, client_id="robot", client_secret="${ROBOT}")
        code, output = call(address, tmp_path, monkeypatch)
    assert code != 0
    assert "signing in failed" in output
    assert any("oauth-authorization-server" in each for each in seen)
    assert not [each for each in seen if "/token" in each or "Basic " in each or SECRET in each]
    assert SECRET not in output


def test_a_redirect_of_the_token_endpoint_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint redirects within its own origin and to another one; neither target gets a request."""
    described = {"resource": "SELF/mcp", "authorization_servers": ["SELF"]}
    with recording_server({}) as (elsewhere, other):
        answers: dict[str, tuple[int, Mapping[str, str], object]] = {
            "/.well-known/oauth-protected-resource/mcp": (200, {}, described),
            "/.well-known/oauth-authorization-server": (200, {}, metadata_of("SELF", "SELF/token")),
            "/token": (307, {"Location": f"{elsewhere}/token"}, {}),
        }
        with recording_server(answers) as (url, seen):
            address = address_of(f"{url}/mcp", url, client_id="robot", client_secret="${ROBOT}")
            code, output = call(address, tmp_path, monkeypatch)
    assert code != 0
    assert "307" in output
    assert [each for each in seen if each.startswith("POST /token")]
    assert other == []
