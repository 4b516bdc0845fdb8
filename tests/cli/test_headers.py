"""The option `--header` of client commands: the header goes to the server of the address only (issue 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from patchbay import exit_codes
from patchbay.cli.typed_addresses import add_headers
from tests.cli.workspace import Workspace
from tests.client.bad import Bad, Handler, Json, serving


@pytest.fixture
def serve() -> Iterator[Callable[..., Bad]]:
    """Starts a server at a URL that records its requests."""
    with serving() as start:
        yield start


def is_sent_always(server: Bad, name: str, value: str) -> bool:
    """Whether every message to the server has a header; a search for an HTTP API at the URL has none."""
    rows = [
        {key.lower(): text for key, text in headers.items()} for method, _, headers in server.got if method == "POST"
    ]
    return bool(rows) and all(row.get(name) == value for row in rows)


@pytest.mark.parametrize("command", ["call {} x", "inspect {}", "mcp tools {}"])
def test_a_header_goes_with_every_request(workspace: Workspace, serve: Callable[..., Bad], command: str) -> None:
    server = serve()
    workspace.environment["KEY"] = "s3cret"
    line = f"jn {command.format(server.url)} --header 'X-Key: a:${{KEY}} ' --header 'X-Team: one two'"
    ended = workspace.quick(line)
    assert is_sent_always(server, "x-key", "a:s3cret"), ended.err
    assert is_sent_always(server, "x-team", "one two")
    assert "s3cret" not in ended.err


def test_a_header_does_not_follow_a_redirect_to_another_origin(workspace: Workspace, serve: Callable[..., Bad]) -> None:
    other = serve()

    def redirect(handler: Handler, body: Json) -> bool:
        handler.send_json(None, 307, Location=other.url)
        return True

    server = serve(first=redirect)
    assert workspace.quick(f"jn call {server.url} x --header 'X-Key: secret'").code != exit_codes.OK
    assert is_sent_always(server, "x-key", "secret")
    assert other.got == []


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("X-Key", "expected 'NAME: VALUE'"),
        ("X Key: secret", "'X Key' is not the name of a header"),
        (": secret", "'' is not the name of a header"),
        ("X-K\u00e9y: secret", "is not the name of a header"),
        ("X-Key: secret\nX-Other: y", "X-Key: expected a value of printable ASCII without a line break"),
        ("X-Key: secret\x01", "X-Key: expected a value of printable ASCII"),
        ("Content-Length: 7", "Content-Length: the client itself sends this header"),
        ("mcp-session-id: secret", "mcp-session-id: the client itself sends this header"),
    ],
)
def test_a_header_that_cannot_be_sent_is_a_wrong_option_and_its_value_is_not_shown(
    workspace: Workspace, header: str, words: str
) -> None:
    ended = workspace.quick(f"jn inspect http://127.0.0.1:9/mcp --header '{header}'")
    assert ended.code == exit_codes.USAGE
    assert words in ended.err
    assert "secret" not in ended.err


@pytest.mark.parametrize("address", ["@notes", "notes", "/mcp/echo", "mcp+uvx://tool", "mcp://preset"])
def test_a_header_needs_the_address_of_a_url(workspace: Workspace, address: str) -> None:
    ended = workspace.quick(f"jn inspect {address} --header 'X-Key: secret'")
    assert ended.code == exit_codes.USAGE
    assert "is not a URL; expected http(s)://" in ended.err


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://h/mcp", "mcp+http://h/mcp?header.X-Key=a%20%26b"),
        ("https://h/mcp?a=1&b=2", "mcp+https://h/mcp?launch.query=a%3D1%26b%3D2&header.X-Key=a%20%26b"),
        ("https://h/openapi.json", "openapi+https://h/openapi.json?header.X-Key=a%20%26b"),
        ("mcp+http://h/mcp?header.x-key=old&tool=t", "mcp+http://h/mcp?tool=t&header.X-Key=a%20%26b"),
        ("openapi+http://h?operation=o", "openapi+http://h?operation=o&header.X-Key=a%20%26b"),
    ],
)
def test_a_header_becomes_a_part_of_the_address_and_replaces_it_there(address: str, found: str) -> None:
    assert add_headers(address, [("X-Key", "a &b")]) == found
