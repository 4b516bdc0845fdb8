"""A hostile server leads the hub and its client to private addresses: no packet arrives there.

The servers here are on loopback themselves. They may lead only to their own origin: an address that the user did not
name must be public, in every spelling.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.auth.oauth import BrowserSignIn
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import resolve_public_address
from patchbay.errors import PatchbayError
from tests.attacks.leading import Leading, Witness, leading, witness
from tests.checkout import ROOT
from tests.serving.running import running
from tests.waiting import BOUND, until

HERE = (
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0x7F.0x0.0x0.0x1",
    "0177.1",
    "0177.0.0.1",
    "0177.0.0.01",
    "127.0x0.0.1",
    "0x7f.0.0.01",
    "localhost",
    "LOCALHOST",
    "LocalHost",
    "localhost.",
    "127.0.0.1.",
    "ip6-localhost",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "１２７.0.0.1",
    "%31%32%37.0.0.1",
    "good@127.0.0.1",
    "good:80@127.0.0.1",
    "0000:0@127.1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[::ffff:0:7f00:1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2002:7f00:1::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[2001:0:7f00:1::]",
    "[fe80::5efe:127.0.0.1]",
    "[2001:db8::5efe:7f00:1]",
    "[2001:db8::200:5efe:7f00:1]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[ff01::1]",
    "[100::1]",
    "[2001:db8::1]",
    "[2001:2::1]",
    "[3fff::1]",
    "[5f00::1]",
    "[2001:10::1]",
)
"""Spellings of this machine, or of addresses that lead to it; host names for the tests' own port."""

ELSEWHERE = (
    "10.0.0.1",
    "10.255.255.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "198.18.0.1",
    "198.19.255.254",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "0.1.2.3",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[::ffff:0:10.0.0.1]",
    "[2002:a9fe:a9fe::]",
    "[::ffff:c0a8:1]",
)
"""Spellings of other private, link-local, shared, special and multicast addresses."""

WAYS = (
    *("resource metadata", "authorization server", "authorization endpoint", "token endpoint"),
    *("registration endpoint", "redirect", "event stream"),
)


@pytest.fixture(scope="module")
def evil() -> Iterator[Leading]:
    with leading() as server:
        yield server


@pytest.fixture(scope="module")
def seen() -> Iterator[Witness]:
    with witness() as counted:
        yield counted


def refused(evil: Leading, folder: Path, seconds: float = BOUND) -> PatchbayError:
    """Return the error of a connection with a sign-in, within this many seconds."""

    def back(url: str) -> None:
        """Act as the browser of the person who signs in: return with a code."""
        query = dict(part.partition("=")[::2] for part in url.partition("?")[2].split("&"))
        with suppress(OSError):
            urlopen(f"{_unquoted(query['redirect_uri'])}?code=x&state={query['state']}", timeout=BOUND).close()

    with pytest.raises(PatchbayError) as caught:
        Connection.open(Http(f"{evil.origin}/mcp"), signin=BrowserSignIn(folder, back), start_timeout=seconds).close()
    return caught.value


def _unquoted(text: str) -> str:
    return text.replace("%3A", ":").replace("%2F", "/")


@pytest.mark.parametrize("host", [*HERE, *ELSEWHERE])
def test_no_spelling_of_a_private_address_is_connected_to(
    evil: Leading, seen: Witness, host: str, tmp_path: Path
) -> None:
    """JN-70. A server names it as its authorization server."""
    evil.way, evil.there = "authorization server", f"http://{host}:{seen.port}"
    refused(evil, tmp_path)
    assert seen.visits == 0


@pytest.mark.parametrize("host", [*HERE, *ELSEWHERE])
def test_no_spelling_of_a_private_address_is_taken_for_public(host: str) -> None:
    """The check itself: no private address is returned, whether the resolver understands the spelling or not."""
    with pytest.raises(Unreachable):
        resolve_public_address(host.rpartition("@")[2].replace("%25", "%"), 80, "the test")


@pytest.mark.parametrize("way", WAYS)
def test_no_step_of_signing_in_leads_to_a_private_address(
    evil: Leading, seen: Witness, way: str, tmp_path: Path
) -> None:
    """Each document and each endpoint of a sign-in, a redirect, and the endpoint of an event stream."""
    evil.way, evil.there = way, f"http://127.0.0.1:{seen.port}"
    message = refused(evil, tmp_path, 5 if way == "event stream" else BOUND).message
    if way not in ("redirect", "event stream", "authorization endpoint"):
        assert "leads to 127.0.0.1, which is not a public address" in message
        assert f"name it with launch.issuer=http://127.0.0.1:{seen.port}" in message
    assert seen.visits == 0


def test_an_authorization_server_that_the_person_named_is_reached(evil: Leading, tmp_path: Path) -> None:
    """The counterpart: it shows that the client reaches permitted addresses."""
    with witness() as named:
        evil.way, evil.there = "authorization server", f"http://127.0.0.1:{named.port}"
        with pytest.raises(PatchbayError):
            target = Http(f"{evil.origin}/mcp", issuer=evil.there)
            Connection.open(target, signin=BrowserSignIn(tmp_path, lambda _: None), start_timeout=BOUND).close()
        assert named.visits > 0


def test_the_command_line_is_not_led_to_private_addresses(evil: Leading, seen: Witness, tmp_path: Path) -> None:
    """`patchbay inspect` as a user runs it."""
    evil.way, evil.there = "authorization server", f"http://localhost:{seen.port}"
    command = [sys.executable, "-m", "patchbay", "inspect", f"{evil.origin}/mcp"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode != 0
    assert "leads to localhost, which is not a public address" in done.stderr
    assert seen.visits == 0


def test_a_mounted_server_leads_the_hub_to_no_other_address(evil: Leading, seen: Witness, tmp_path: Path) -> None:
    """A sign-in and a redirect while it connects; schemas, icons and links when it is used."""
    mount = {"kind": "upstream", "address": f"{evil.origin}/mcp"}
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "evil.json").write_text(json.dumps(mount))
    evil.way, evil.there = "resource metadata", f"http://127.0.0.1:{seen.port}"
    with running(tmp_path) as hub:
        for words, evil.way in (("requires a sign-in", "resource metadata"), ("Redirect to ", "redirect")):
            hub.line_with(words)
        evil.way = "contents"
        hub.line_with("the upstream evil answers")
        until(lambda: b'"look"' in asked(hub.port, "tools/list", {}), "its tools are listed")
        look: dict[str, Any] = {"name": "look", "arguments": {"x": {"$ref": evil.there}}}
        until(lambda: b"linked" in asked(hub.port, "tools/call", look), "the worker has a connection to its server")
        for page in ("/servers/evil", "/servers/evil/source", "/mcp", "/"):
            assert hub.get(page)[0] == 200
    assert seen.visits == 0


def asked(port: int, method: str, params: dict[str, object]) -> bytes:
    """The answer of the mounted server to a request."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    with urlopen(Request(f"http://127.0.0.1:{port}/mcp/evil", body, headers), timeout=BOUND) as answer:
        return bytes(answer.read())
