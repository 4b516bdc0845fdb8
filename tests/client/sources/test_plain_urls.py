"""Plain URLs and further pages, with a small server that sends prepared answers."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchbay.client.errors import Unreachable
from patchbay.client.source import SourceContext
from patchbay.client.sources import make_sources
from patchbay.errors import InvalidParams
from tests.client.bad import Handler, Json, serving
from tests.client.peers import open_context

SOURCES = make_sources()


class Pages(ThreadingHTTPServer):
    """Gives what stands in `pages` by path: a media type, the bytes, a Link header. Remembers who asked for what."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.pages: dict[str, tuple[str, bytes, str]] = {}
        self.asked: list[tuple[str, str | None]] = []

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_address[1]}"


class Page(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        kind, data, link = self.server.pages[self.path.partition("?")[0]]
        self.server.asked.append((str(self.headers["Host"]), self.headers["X-Key"]))
        self.send_response(200)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), ("Link", link)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def pages() -> Iterator[Pages]:
    with Pages() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def context(tmp_path: Path) -> Iterator[SourceContext]:
    with open_context(tmp_path) as found:
        yield found


def test_a_compressed_file_is_not_read_as_a_table(pages: Pages, context: SourceContext) -> None:
    data = gzip.compress(b"a,b\n1,2\n")
    pages.pages["/t.csv"] = ("application/octet-stream", b"a,b\n1,2\n", "")
    pages.pages["/t.csv.gz"] = ("application/octet-stream", data, "")
    found = [
        list(SOURCES.find(url, context).reads(url, context))
        for url in (f"{pages.url()}/t.csv", f"{pages.url()}/t.csv.gz")
    ]
    assert found[0] == [{"a": "1", "b": "2"}]
    assert found[1][0].keys() == {"blob", "mimeType"}


class Leading(Handler):
    """Redirects a GET to another server."""

    def do_GET(self) -> None:
        self.send_json(None, 302, Location="http://localhost:1/docs")


def refuse_all(handler: Handler, body: Json) -> bool:
    handler.send_json(None, 404)
    return True


def test_an_mcp_server_that_redirects_browsers_is_found(context: SourceContext) -> None:
    """JN-11: without an MCP server, the error names both failures."""
    with serving() as start:
        found, missing = start(), start(first=refuse_all)
        found.RequestHandlerClass = missing.RequestHandlerClass = Leading
        assert list(SOURCES.find(found.url, context).reads(found.url, context)) == []
        assert found.got
        with pytest.raises(Unreachable, match=r"redirects to http://localhost:1/docs.*; and no MCP server is there: "):
            list(SOURCES.find(missing.url, context).reads(missing.url, context))


def test_arguments_do_not_follow_a_next_page_to_another_server(
    pages: Pages, context: SourceContext, tmp_path: Path
) -> None:
    """JN-66, THREATS 1.7: an argument may be a credential."""
    key = {"name": "X-Key", "in": "header", "schema": {"type": "string"}}
    paths = {"/items": {"get": {"operationId": "items", "parameters": [key]}}}
    document = {"openapi": "3.1.0", "servers": [{"url": pages.url()}], "paths": paths}
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    address = f"openapi+file:{tmp_path}/openapi.json?operation=items&X-Key=hidden&page.type=link&launch.base_url="
    next_page = f'<{pages.url("localhost")}/items?page=2>; rel="next"'
    pages.pages["/items"] = ("application/json", b"[1]", next_page)
    with pytest.raises(InvalidParams, match=r"the next page is at http://localhost:.*which is not followed"):
        list(SOURCES.find(address, context).reads(f"{address}{pages.url()}", context))
    assert pages.asked == [(pages.url().removeprefix("http://"), "hidden")]
