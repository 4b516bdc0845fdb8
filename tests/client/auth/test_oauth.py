"""What signing in keeps, and how a browser comes back; the flows themselves are shown by the conformance client."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from patchbay.client.auth.oauth import BrowserSignIn, ClientCredentials, _BrowserCallback, make_auth
from patchbay.client.auth.token_files import TokenFile
from patchbay.client.errors import SignInNeeded, Unreachable
from tests.waiting import BOUND

URL = "https://example.org/mcp"


def test_token_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    """X-15: folder 0700, files 0600, one for each server."""
    folder = tmp_path / "config" / "tokens"
    kept = TokenFile(folder, URL)
    asyncio.run(kept.set_tokens(OAuthToken(access_token="secret", refresh_token="again", expires_in=3600)))
    asyncio.run(kept.set_client_info(OAuthClientInformationFull(client_id="me", redirect_uris=None)))
    kept.set_proof("key", "token")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]
    again = TokenFile(folder, URL)
    tokens = asyncio.run(again.get_tokens())
    assert tokens is not None
    assert (tokens.access_token, tokens.refresh_token) == ("secret", "again")
    client = asyncio.run(again.get_client_info())
    assert client is not None
    assert client.client_id == "me"
    assert again.get_proof() == ("key", "token")
    assert asyncio.run(TokenFile(folder, "https://example.org/other").get_tokens()) is None
    again.delete()
    assert asyncio.run(again.get_tokens()) is None


def test_a_token_file_under_the_name_of_another_server_is_not_used(tmp_path: Path) -> None:
    kept, other = TokenFile(tmp_path, URL), TokenFile(tmp_path, "https://example.com/mcp")
    asyncio.run(kept.set_tokens(OAuthToken(access_token="secret", expires_in=3600)))
    kept.path.rename(other.path)
    assert asyncio.run(other.get_tokens()) is None


def test_two_processes_that_write_one_token_file_lose_nothing(tmp_path: Path) -> None:
    """X-15: each writes another part of one file, again and again."""
    source = """
import asyncio, sys
from pathlib import Path
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from patchbay.client.auth.token_files import TokenFile
kept = TokenFile(Path(sys.argv[1]), "https://example.org/mcp")
client = OAuthClientInformationFull(client_id="me", redirect_uris=None)
print("ready", flush=True)
sys.stdin.readline()
for number in range(300):
    if sys.argv[2] == "proof":
        kept.set_proof("key", str(number))
        assert kept.get_proof()[1] == str(number), number
    else:
        asyncio.run(kept.set_client_info(client.model_copy(update={"client_id": str(number)})))
        assert asyncio.run(kept.get_client_info()).client_id == str(number), number
"""
    command = [sys.executable, "-c", source, str(tmp_path / "tokens")]
    both = [Popen([*command, part], stdin=PIPE, stdout=PIPE, text=True) for part in ("proof", "client")]
    for one in both:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in both:
        one.communicate(timeout=60)
    assert [one.returncode for one in both] == [0, 0]


def test_an_expired_access_token_is_returned_as_an_empty_one(tmp_path: Path) -> None:
    kept = TokenFile(tmp_path, URL)
    asyncio.run(kept.set_tokens(OAuthToken(access_token="secret", refresh_token="again", expires_in=1)))
    tokens = asyncio.run(kept.get_tokens())
    assert tokens is not None
    assert (tokens.access_token, tokens.refresh_token) == ("", "again")


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"url": "https://example.org/mcp", "tokens": {"x": 1}}'])
def test_a_damaged_token_file_counts_as_empty(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    kept = TokenFile(tmp_path, URL)
    kept.path.write_bytes(damage)
    assert asyncio.run(kept.get_tokens()) is None
    assert damage == b"[]" or "sign in again" in caplog.text


def test_the_callback_accepts_one_code(tmp_path: Path) -> None:
    """The page listens on the loopback interface only during a sign-in."""
    pages: list[str] = []

    def show(url: str) -> None:
        assert url == "https://login.example.org/?state=s"
        foreign = ("/callback?error=x", "/callback?code=abc&state=other")
        for path in ("/favicon.ico", "/callback", *foreign, "/callback?code=abc&state=s&iss=https://login.example.org"):
            try:
                with urlopen(back.uri.removesuffix("/callback") + path, timeout=BOUND) as page:
                    pages.append(page.read().decode())
            except HTTPError as problem:
                pages.append(str(problem.code))
                problem.close()

    async def sign_in() -> tuple[str, str | None, str | None]:
        await back.open_page("https://login.example.org/?state=s")
        came = await back.wait_for_code()
        return came.code, came.state, came.iss

    back = _BrowserCallback(URL, BrowserSignIn(tmp_path, show))
    assert asyncio.run(sign_in()) == ("abc", "s", "https://login.example.org")
    assert pages[:4] == ["404"] * 4
    assert "You are signed in" in pages[4]
    with pytest.raises(OSError, match=r"refused"):
        urlopen(back.uri, timeout=BOUND)


def test_a_refused_sign_in_says_why(tmp_path: Path) -> None:
    def show(url: str) -> None:
        with urlopen(f"{back.uri}?error=access_denied&error_description=%3Cb%3Eno", timeout=BOUND) as page:
            assert b"&lt;b&gt;no" in page.read()

    async def sign_in() -> None:
        await back.open_page("https://login.example.org/")
        await back.wait_for_code()

    back = _BrowserCallback(URL, BrowserSignIn(tmp_path, show))
    with pytest.raises(SignInNeeded, match="was refused: <b>no"):
        asyncio.run(sign_in())


@pytest.mark.parametrize("url", ["file:///etc/passwd", "vscode://open?x=1", "javascript:alert(1)", "login.example.org"])
def test_only_a_web_page_is_opened(tmp_path: Path, url: str) -> None:
    """THREATS 1.10: a server may not have a program started."""
    opened: list[str] = []
    back = _BrowserCallback(URL, BrowserSignIn(tmp_path, opened.append))
    with pytest.raises(SignInNeeded, match="names no web page"):
        asyncio.run(back.open_page(url))
    assert not opened


def test_a_sign_in_without_a_person_names_the_command_to_run(tmp_path: Path) -> None:
    back = _BrowserCallback(URL, BrowserSignIn(tmp_path, hint="run: patchbay inspect mcp+https://example.org/mcp"))
    with pytest.raises(SignInNeeded, match="run: patchbay inspect"):
        asyncio.run(back.open_page("https://login.example.org/"))


def test_an_occupied_callback_port_is_an_error_that_names_it(tmp_path: Path) -> None:
    shown = threading.Event()
    back = _BrowserCallback(URL, BrowserSignIn(tmp_path, lambda url: shown.set()))
    other = _BrowserCallback(URL, BrowserSignIn(tmp_path, lambda url: shown.set()))

    async def both() -> None:
        await back.open_page("https://login.example.org/")
        try:
            await other.open_page("https://login.example.org/")
        finally:
            assert back._listener is not None
            back._listener.close()

    with pytest.raises(Unreachable, match="cannot wait for the browser on port"):
        asyncio.run(both())


def test_a_client_without_credentials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="neither a secret nor a private key"):
        make_auth(URL, ClientCredentials(tmp_path, "me", "https://login.example.org"))
