"""A member of a room names credentials of the operator, and a URL that the operator did not name with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest

from patchbay.rooms.servers.mounting import CREDENTIALS, GatewayContext
from patchbay.stores.memory import MemoryStore
from tests.rooms.people import Person, rooms_of
from tests.rooms.test_mounts import mount
from tests.waiting import until

SECRET = "the-secret-of-acme"
CONTEXT = GatewayContext({"ACME_TOKEN": SECRET}, "this-hub", "1", ("127.0.0.1", "localhost"))


class Recording(ThreadingHTTPServer):
    """A server on this machine that records the head of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heads: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Recording)
        self.server.heads.append(str(self.headers))
        self.send_error(404)

    do_GET = do_POST

    def log_message(self, format: str, *values: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def other() -> Iterator[Recording]:
    """Another server on the host of the operator's: the attacker reads what arrives there."""
    yield from _recording()


@pytest.fixture(scope="module")
def named() -> Iterator[Recording]:
    """The server that the operator named."""
    yield from _recording()


def _recording() -> Iterator[Recording]:
    with Recording() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def alice(named: Recording) -> Iterator[Person]:
    store = MemoryStore()
    headers = {"X-Api-Key": "${ACME_TOKEN}"}
    known = {
        "acme": {"hosts": [f"http://127.0.0.1:{named.server_port}"], "headers": headers},
        "tls": {"hosts": ["127.0.0.1"], "headers": headers},
    }
    store.names.move({f"variables/{CREDENTIALS}": store.blobs.put(orjson.dumps(known))}, "operator", "credentials")
    with rooms_of(store, context=CONTEXT) as rooms:
        yield Person(rooms.create("demo", "alice"), "alice")


def test_credentials_go_to_the_scheme_the_host_and_the_port_that_the_operator_named(
    alice: Person, named: Recording, other: Recording
) -> None:
    """A host alone means https at its default port."""
    there = f"127.0.0.1:{other.server_port}"
    wrong = [f"http://{there}/mcp", f"https://{there}/mcp", f"http://localhost:{named.server_port}/mcp"]
    wrong += ["http://127.0.0.1/mcp", f"https://127.0.0.1:{named.server_port}/mcp"]
    for number, url in enumerate(wrong):
        refusal = alice.says("mcp.mount", mount(url, f"wrong{number}", credentials="acme")).refusal
        assert refusal.startswith("the credentials acme are not for "), url
    for number, url in enumerate([f"http://{there}/mcp", "http://127.0.0.1/mcp", "https://127.0.0.1:8443/mcp"]):
        refusal = alice.says("mcp.mount", mount(url, f"plain{number}", credentials="tls")).refusal
        assert refusal.startswith("the credentials tls are not for "), url
    good = f"http://127.0.0.1:{named.server_port}/mcp"
    assert alice.says("mcp.mount", mount(good, "good", credentials="acme")).refusal == ""
    until(lambda: any(SECRET in head for head in named.heads))
    assert not other.heads


def test_a_text_of_a_member_is_not_a_variable_of_the_hub(alice: Person, other: Recording) -> None:
    """`${NAME}` in a URL, in a path and in labels: nothing is put in."""
    base = f"http://127.0.0.1:{other.server_port}/mcp"
    for url in (f"{base}?x=${{ACME_TOKEN}}", f"{base}/${{ACME_TOKEN}}", "http://${ACME_TOKEN}/mcp"):
        assert "name credentials by reference" in alice.says("mcp.mount", mount(url, "text")).refusal
    labels = {"${ACME_TOKEN}": "${ACME_TOKEN}"}
    assert alice.says("mcp.mount", mount(f"{base}?x=$%7BACME_TOKEN%7D", "text", labels=labels)).refusal == ""
    until(lambda: other.heads)
    assert SECRET not in "".join(other.heads)
