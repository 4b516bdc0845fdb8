"""The official SDKs get tokens as programs, with the credentials that `patchbay client new` prints."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import httpx2
import mcp
import pytest
from click.testing import CliRunner
from joserfc.jwk import ECKey
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.streamable_http import streamable_http_client

from patchbay.cli.commands.patchbay import main
from tests.access.empty_home import EmptyHome
from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES, texts
from tests.interaction.programs import plain_environment
from tests.serving.running import Hub
from tests.waiting import BOUND

pytestmark = [pytest.mark.process]

PRIVATE = ECKey.generate_key("P-256").as_pem(private=True).decode()


def make_program(hub: Hub, name: str, *options: str) -> dict[str, str]:
    """Make a client with the command, while the hub runs."""
    done = CliRunner().invoke(main, ["client", "new", name, *options, "--data", str(hub.folder / "data")])
    assert done.exit_code == 0, done.output
    found: dict[str, str] = json.loads(done.stdout)
    return found


def make_signer(hub: Hub, name: str, folder: Path) -> None:
    file = folder / "public.pem"
    file.write_bytes(ECKey.import_key(PRIVATE).as_pem(private=False))
    assert make_program(hub, name, "--public-key", str(file)) == {
        "client_id": name,
        "token_endpoint_auth_method": "private_key_jwt",
    }


def call(endpoint: str, auth: httpx2.Auth, mode: str) -> str:
    """Call a tool with the Python SDK."""

    async def run() -> str:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            mcp.Client(streamable_http_client(endpoint, http_client=http), mode=mode) as client,
        ):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    return asyncio.run(run())


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_python_sdk_gets_a_token_for_a_secret_and_for_a_signature(hub: Hub, mode: str, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{hub.port}"
    endpoint, name = f"{base}/mcp/echo", f"python-{mode}"
    secret = make_program(hub, name)["client_secret"]
    assert (
        call(endpoint, ClientCredentialsOAuthProvider(endpoint, EmptyHome(), name, secret, issuer=base), mode)
        == "hello"
    )
    signer = f"{name}-signer"
    make_signer(hub, signer, tmp_path)
    signing = SignedJWTParameters(issuer=signer, subject=signer, signing_key=PRIVATE, signing_algorithm="ES256")
    provider = PrivateKeyJWTOAuthProvider(
        endpoint, EmptyHome(), signer, signing.create_assertion_provider(), issuer=base
    )
    assert call(endpoint, provider, mode) == "hello"


@pytest.mark.node
def test_the_typescript_sdk_gets_a_token_for_a_secret_and_for_a_signature(hub: Hub, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{hub.port}"
    secret = make_program(hub, "typescript")["client_secret"]
    make_signer(hub, "typescript-signer", tmp_path)
    program = str(ROOT / "tests/access/oauth/program_client.mjs")
    given = {"secret": secret, "key": PRIVATE, "issuer": base, "endpoint": f"{base}/mcp/echo"}
    done = subprocess.run(
        [str(NODE), program, str(PACKAGES)],
        input=json.dumps(given),
        env=plain_environment(tmp_path),
        text=True,
        capture_output=True,
        timeout=BOUND,
        check=False,
    )
    assert done.stdout == "hello\nhello\n", done.stderr


def test_the_commands_list_and_revoke_a_client(hub: Hub, tmp_path: Path) -> None:
    make_program(hub, "listed", "--grants", "call:echo.*")
    make_signer(hub, "listed-signer", tmp_path)
    data = ["--data", str(hub.folder / "data")]
    rows = CliRunner().invoke(main, ["client", "list", *data]).output
    assert re.search("listed-signer +public key", rows) and "call:echo.*" in rows
    assert CliRunner().invoke(main, ["client", "revoke", "listed", *data]).exit_code == 0
    assert "call:echo.*" not in CliRunner().invoke(main, ["client", "list", *data]).output
