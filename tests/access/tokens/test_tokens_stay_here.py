"""The token of a caller goes no further than the hub: not upstream, not to a tool, not to a log, not to the store."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from tests.access.tokens.issuers import DpopClient, Issuer
from tests.hubs import Hub
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]

ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text'
NOSY = '''
import os
import sys

def nosy(context) -> str:
    """Tell all that a tool sees."""
    seen = [f"{name}={getattr(context, name, None)!r}" for name in dir(context)]
    return repr(dict(os.environ)) + repr(sys.argv) + repr(seen)
'''


class Upstream:
    """A hub that is mounted by another; `seen` is all that it was sent."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder, {"echo.py": ECHO})
        self.seen: list[str] = []
        inner = self.hub.app.wsgi_app

        def record(environ: Any, start_response: Any) -> Iterable[bytes]:
            self.seen.append(repr({name: value for name, value in environ.items() if name.isupper()}))
            return inner(environ, start_response)

        self.hub.app.wsgi_app = record  # type: ignore[method-assign]
        self._server = make_server("127.0.0.1", 0, self.hub.app, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.hub.app.parts.drain.begin()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.hub.close()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    upstream = Upstream(tmp_path / "upstream")
    yield upstream
    upstream.close()


def test_a_token_is_not_passed_on_not_shown_to_tools_not_logged_and_not_stored(
    issuer: Issuer, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mount = json.dumps({"kind": "upstream", "address": f"{upstream.url}/mcp/echo"})
    files = {"nosy.py": NOSY, "far.json": mount}
    hub = Hub(tmp_path / "hub", files, store="sqlite", activity_contents="keep", issuer=issuer.url)
    sender, told = DpopClient(), []
    with caplog.at_level(logging.DEBUG):
        for server, tool, arguments in (("nosy", "nosy", {}), ("far", "echo", {"text": "hello"})):
            resource = f"http://localhost/mcp/{server}"
            tokens = [issuer.mint(resource), issuer.get_token(resource, dpop=sender)]
            until(partial(listed, hub, server, tokens[0]), f"the tools of {server}")
            for token, headers in (
                (tokens[0], {"Authorization": f"Bearer {tokens[0]}"}),
                (tokens[1], {"Authorization": f"DPoP {tokens[1]}", "DPoP": sender.prove("POST", resource, tokens[1])}),
                (tokens[0], {"Authorization": f"Bearer {tokens[0]}x"}),
            ):
                call = {"name": tool, "arguments": arguments}
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                answer = hub.send(server, message, headers | {"MCP-Protocol-Version": "2025-11-25"})
                assert answer.status == (401 if headers["Authorization"].endswith("x") else 200)
                told.append((token, answer.body.decode() + repr(dict(answer.headers))))
    hub.close()
    assert any("Tell all" not in text and "PATH" in text for _, text in told)
    kept = b"".join(file.read_bytes() for file in sorted((tmp_path / "hub").rglob("*")) if file.is_file())
    assert b"hello" in kept
    assert upstream.seen
    for token, text in told:
        for part in (token.split(".")[1], token.split(".")[2]):
            assert part not in text
            assert part not in "".join(upstream.seen)
            assert part not in caplog.text
            assert part.encode() not in kept


def listed(hub: Hub, server: str, token: str) -> bool:
    """Whether the tools of a server are there."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2025-11-25"}
    answer = hub.send(server, message, headers)
    return answer.status == 200 and bool(answer.result["tools"])
