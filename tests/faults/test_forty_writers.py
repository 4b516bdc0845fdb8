"""Forty clients change one thing at once, each by the version that came with it: no acknowledged change is lost.

Each client reads a number and its version, and writes the next number on the condition that the version is current. A
refused client reads again. So the last number is the number of acknowledged writes, provided that each answer has its
value and its version from one read, and that each write compares and changes in one step, in all workers.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import unescape
from typing import Self
from urllib.parse import urlencode

import orjson
import pytest

from tests.serving.running import Hub, running
from tests.waiting import BOUND, until, until_every_worker

pytestmark = pytest.mark.process

WRITERS = 40
NUMBER = re.compile(r"(?:count|return)\W*(\d+)")
BASE = re.compile(r'name="base" value="([^"]*)"')
TEXT = re.compile(r"<textarea[^>]*>\n?(.*?)</textarea>", re.DOTALL)
FORM = "application/x-www-form-urlencoded"

GRANTS = '{"groups": {"count%d": ["ann"]}, "grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]}'
DEFINITION = "def count() -> int:\n    return %d\n"
DOCUMENT = "# Notes\n\ncount: %d\n"


class Client:
    """The operator, over one connection, which ends with its block."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
        self._headers = hub.as_operator()

    def send(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, str]:
        """Send a request; return the status, the ETag and the body of the answer."""
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body.encode(), sent)
        answer = self._connection.getresponse()
        return answer.status, answer.headers.get("ETag", ""), answer.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Versioned:
    """Something of the hub with a version: how a client makes it, reads it, and changes what it has read."""

    make: Callable[[Client], None]
    read: Callable[[Client], tuple[int, str]]
    write: Callable[[Client, int, str], int]


def _of_page(path: str) -> Callable[[Client], tuple[int, str]]:
    """Return a reader of a form: the number in its text, and its hidden field `base`."""

    def read(client: Client) -> tuple[int, str]:
        status, _, page = client.send("GET", path, Accept="text/html")
        base, text = BASE.search(page), TEXT.search(page)
        assert status == 200 and base and text, page[:2000]
        number = NUMBER.search(unescape(text[1]))
        assert number, text[1]
        return int(number[1]), base[1]

    return read


def _by_form(address: str, text: str, **fields: str) -> Callable[[Client, int, str], int]:
    """Return a writer that posts a form; `text` is the field that holds the number, or its template."""
    field, _, template = text.partition("=")

    def write(client: Client, number: int, base: str) -> int:
        body = urlencode({**fields, field: template % number, "base": base})
        return client.send("POST", address, body, Content_Type=FORM)[0]

    return write


def _put(path: str, text: str) -> Callable[[Client], None]:
    def make(client: Client) -> None:
        assert client.send("PUT", path, text)[0] == 201

    return make


def _read_by_etag(client: Client) -> tuple[int, str]:
    status, etag, body = client.send("GET", "/variables/counter.json")
    assert status == 200
    return int(orjson.loads(body)["value"].split()[1]), etag


def _write_by_etag(client: Client, number: int, etag: str) -> int:
    return client.send("PUT", "/variables/counter", f"count {number}", If_Match=etag)[0]


def _nothing(client: Client) -> None:
    """It is there from the start."""


def _make_server(client: Client) -> None:
    fields = {"action": "save", "name": "stored", "source": DEFINITION % 0}
    assert client.send("POST", "/servers/new", urlencode(fields), Content_Type=FORM)[0] == 303

    def is_shown() -> bool:
        with Client(client.hub) as other:
            return other.send("GET", "/servers/stored/edit")[0] == 200

    until_every_worker(is_shown, "every worker shows the new server")


KINDS = {
    "variable by ETag": Versioned(_put("/variables/counter", "count 0"), _read_by_etag, _write_by_etag),
    "page of a variable": Versioned(
        _put("/variables/paged", "count 0"),
        _of_page("/variables/paged"),
        _by_form("/variables/paged", "source=count %d"),
    ),
    "grants": Versioned(
        _put("/variables/access", GRANTS % 0),
        _of_page("/access"),
        _by_form("/access", f"source={GRANTS}", action="save"),
    ),
    "server in the store": Versioned(
        _make_server,
        _of_page("/servers/stored/edit"),
        _by_form("/servers/stored/edit", f"source={DEFINITION}", action="save"),
    ),
    "server with a file": Versioned(
        _nothing,
        _of_page("/servers/filed/edit"),
        _by_form("/servers/filed/edit", f"source={DEFINITION}", action="save"),
    ),
    "document": Versioned(
        _nothing,
        _of_page("/servers/jane/documents/edit?path=specs/hub/notes.md"),
        _by_form("/servers/jane/documents/edit", f"text={DOCUMENT}", action="save", path="specs/hub/notes.md"),
    ),
}
"""What the hub keeps with a version, and how clients use this version."""

ACKNOWLEDGED, REFUSED = (200, 201, 303), (409, 412, 422)


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "filed.py").write_text(DEFINITION % 0)
    notes = folder / "data" / "jane" / "specs" / "hub" / "notes.md"
    notes.parent.mkdir(parents=True)
    notes.write_text(DOCUMENT % 0)
    with running(folder, "--workers", str(request.param)) as hub:
        yield hub


@pytest.mark.parametrize("kind", KINDS)
def test_no_acknowledged_change_of_forty_writers_is_lost(hub: Hub, kind: str) -> None:
    versioned, begin = KINDS[kind], threading.Barrier(WRITERS)

    def add_one() -> None:
        status = 0
        with Client(hub) as writer:
            begin.wait(BOUND)
            while status not in ACKNOWLEDGED:
                number, version = versioned.read(writer)
                status = versioned.write(writer, number + 1, version)
                assert status in (*ACKNOWLEDGED, *REFUSED)

    with Client(hub) as client, ThreadPoolExecutor(WRITERS) as writers:
        versioned.make(client)
        for writer in [writers.submit(add_one) for _ in range(WRITERS)]:
            writer.result()
        until(lambda: versioned.read(client)[0] == WRITERS, lambda: f"{WRITERS}; it is {versioned.read(client)[0]}")
