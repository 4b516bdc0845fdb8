"""A mounted program with a list of hosts reaches others: past its proxy, through it, and through that of another one.

Each attack runs on hubs of root and of an ordinary user. Where the machine has no namespaces, nothing could enforce a
list, and the program does not start. The hub has an own /etc/hosts, in which names of others lead inside.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from patchbay.client.egress.proxy import LIMITS
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from patchbay.processes.egress.egress_plans import NAMES_NETWORK
from tests.attacks.test_a_mounted_program_attacks_its_hub import (
    BOTH,
    CONTAINER,
    NO_USER_NAMESPACES,
    PROGRAM,
    WITHOUT,
    Scene,
    Way,
    is_ordinary,
)
from tests.client.egress.proxies import Echo
from tests.databases import ORDINARY_USER
from tests.ordinary_user import OWN_MOUNTS, around_ordinary_user, give_to_ordinary_user
from tests.serving.running import ONE_WORKER, running
from tests.waiting import until

pytestmark = pytest.mark.process

WAYS = [
    Way("user", ORDINARY_USER, BOTH, BOTH),
    Way("user-namespaces", ORDINARY_USER, (NAMESPACES,), (NAMESPACES,)),
    Way("root", OWN_MOUNTS, BOTH, BOTH),
    Way("root-without-user-namespaces", (*NO_USER_NAMESPACES, WITHOUT, "sh"), BOTH, BOTH),
]
WAYS_WITHOUT = [
    Way("user-landlock", ORDINARY_USER, (LANDLOCK,), (LANDLOCK,)),
    Way("user-nothing", ORDINARY_USER, (), ()),
    Way("root-in-a-container", (*NO_USER_NAMESPACES, CONTAINER, "sh"), BOTH, (LANDLOCK,)),
]
if os.geteuid() != 0:
    WAYS, WAYS_WITHOUT = (
        [Way(way.name, (), way.wanted, way.names) for way in ways if way.name.startswith("user")]
        for ways in (WAYS, WAYS_WITHOUT)
    )

HOSTS = {
    "api.example.com": "127.0.0.1",
    "rebind.example.com": "127.0.0.1",
    "mapped.example.com": "::ffff:127.0.0.1",
    "ipv6.example.com": "::1",
    "unspecified.example.com": "0.0.0.0",
    "inside.example.com": "10.0.0.5",
    "metadata.example.com": "169.254.169.254",
    "metadata.internal": "169.254.169.254",
    "metadata-ipv6.internal": "fd00:ec2::254",
    "intranet": "127.0.0.1",
}
MIXED = "192.0.2.1 mixed.example.com\n8.8.8.8 mixed.example.com\n127.0.0.1 mixed.example.com\n"
OWN_HOSTS = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Services:
    """Services of this machine: one that the list names, one that it does not, and one of datagrams."""

    def __init__(self) -> None:
        self.listed, self.other = Echo(OK), Echo(OK)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.received: list[bytes] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            try:
                data, sender = self.datagrams.recvfrom(100)
            except OSError:
                return
            self.received.append(data)
            self.datagrams.sendto(b"pong", sender)

    def close(self) -> None:
        self.listed.close()
        self.other.close()
        self.datagrams.close()


def _lists(services: Services) -> dict[str, list[str]]:
    listed, other = services.listed.port, services.other.port
    names = [f"{name}:{other}" for name in (*HOSTS, "mixed.example.com") if name != "api.example.com"]
    return {
        "hostile": [f"api.example.com:{listed}", f"127.0.0.1:{listed}", "8.8.8.8:443", *names],
        "neighbour": ["elsewhere.example.com:443"],
    }


@contextmanager
def attacked(way: Way, services: Services) -> Iterator[Scene]:
    """A hub with programs that have lists, one with the whole network (`free`), and one without any (`closed`)."""
    folder = Path(mkdtemp(prefix="attacked-"))
    try:
        (folder / "servers").mkdir()
        (folder / "home").mkdir()
        names = "".join(f"{address} {name}\n" for name, address in HOSTS.items())
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}{MIXED}")
        address = f"mcp+stdio:{sys.executable} {PROGRAM}"
        for name, entries in (*_lists(services).items(), ("free", True), ("closed", False)):
            mount = {"kind": "upstream", "address": address, "network": entries, "timeout": 40}
            (folder / "servers" / f"{name}.json").write_text(json.dumps(mount))
        if is_ordinary(way):
            give_to_ordinary_user(folder)
        around, more = around_ordinary_user(folder) if is_ordinary(way) else (way.around, {})
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **more}
        own = OWN_MOUNTS if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
        around = (*own, "sh", "-c", OWN_HOSTS, "sh", str(folder / "hosts"), *around)
        wanted = ("--protections", ",".join((*way.wanted, "privacy")))
        with running(folder, *ONE_WORKER, *wanted, around=around, environ=environ) as hub:
            yield Scene(hub, folder, way)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    found = Services()
    yield found
    found.close()


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.name)
def scene(request: pytest.FixtureRequest, services: Services) -> Iterator[Scene]:
    with attacked(request.param, services) as found:
        for name in ("hostile", "neighbour", "free", "closed"):
            until(lambda name=name: found.attack("processes", server=name).isdecimal())  # type: ignore[misc]
        yield found


def _connect(scene: Scene, target: str, server: str = "hostile") -> str:
    """Return the first line of the answer to CONNECT."""
    return scene.attack("exchange", f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n", server=server).partition("\r\n")[0]


def test_it_reaches_what_its_list_names(scene: Scene, services: Services) -> None:
    port = services.listed.port
    for name in ("api.example.com", "API.example.com.", "localhost", "127.0.0.1", "[::ffff:127.0.0.1]"):
        assert _connect(scene, f"{name}:{port}") == "HTTP/1.1 200 Connection established", name
    text = scene.attack("exchange", f"GET http://api.example.com:{port}/a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert text.startswith("HTTP/1.1 200 ") and text.endswith("hello")
    assert scene.attack("reach_host", "api.example.com", port) == scene.attack("reach", port) == "reached"
    assert scene.attack("resolve", "api.example.com").startswith(f"{NAMES_NETWORK}.")


def test_it_leaves_its_namespace_by_a_socket(scene: Scene, services: Services) -> None:
    assert scene.is_refused("reach", scene.hub.port) and scene.is_refused("reach", services.other.port)
    for host in ("127.0.0.2", "8.8.4.4", "169.254.169.254", "::1", "10.0.0.5", "2001:4860:4860::8888"):
        assert scene.is_refused("reach_host", host, scene.hub.port), host
    for host in ("8.8.4.4", "169.254.169.254", "10.0.0.5"):
        assert scene.is_refused("ping", host), host


def test_without_a_network_it_reaches_no_host(scene: Scene, services: Services) -> None:
    """With `"network": false`: neither the hub, nor this machine, nor another host, nor the proxy of lists."""
    places = (("127.0.0.1", scene.hub.port), ("127.0.0.1", services.listed.port), ("::1", services.listed.port))
    for host, port in (*places, ("8.8.4.4", 443), ("10.0.0.5", 443)):
        assert scene.attack("reach_host", host, port, server="closed").startswith("refused: "), host
    datagrams = services.datagrams.getsockname()[1]
    assert scene.attack("send_datagram", "127.0.0.1", datagrams, server="closed").startswith("refused: ")
    assert scene.attack("reach", services.listed.port, server="free") == "reached"


def test_it_leaves_its_namespace_by_datagrams_and_names(scene: Scene, services: Services) -> None:
    port = services.datagrams.getsockname()[1]
    assert scene.attack("send_datagram", "127.0.0.1", port, server="free") == "pong"
    services.received.clear()
    for host in ("127.0.0.1", "8.8.8.8", "::1"):
        assert scene.is_refused("send_datagram", host, port), host
    assert services.received == []
    for name in ("elsewhere.example.com", "data-of-mine.evil.example"):
        assert scene.is_refused("resolve", name), name


def test_it_reaches_an_abstract_socket(scene: Scene) -> None:
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{scene.folder}")
        abstract.listen()
        assert scene.is_refused("connect", f"@{scene.folder}")


def test_it_asks_the_proxy_for_the_hub_in_other_spellings(scene: Scene) -> None:
    port = scene.hub.port
    spellings = [
        *("127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
        *(
            "0.0.0.0",
            "[::]",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "017700000001",
        ),
        *("127.0.0.1.", "127.0.0.2", "a.localhost", "api.example.com", "api.example.com@127.0.0.1", "[fe80::1%lo]"),
        *(
            "[64:ff9b::7f00:1]",
            "[::ffff:0:127.0.0.1]",
            "①②⑦.0.0.1".encode().decode("latin-1"),
            "127。0。0。1",
            "%31%32%37.0.0.1",
        ),
    ]
    for host in spellings:
        text = host.encode().decode("latin-1")
        for request in (f"CONNECT {text}:{port} HTTP/1.1", f"GET http://{text}:{port}/healthz HTTP/1.1"):
            found = scene.attack("exchange", f"{request}\r\nHost: localhost:{port}\r\n\r\n")
            assert found.startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 ")), (request, found)


def test_a_listed_name_leads_inside(scene: Scene, services: Services) -> None:
    """Rebinding: the one who owns a name decides where it leads."""
    before = len(services.other.requests)
    for name in (*HOSTS, "mixed.example.com"):
        if name == "api.example.com":
            continue
        found = scene.attack("exchange", f"CONNECT {name}:{services.other.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert found.startswith("HTTP/1.1 403 ") and "private address" in found, (name, found)
        with_socket = scene.attack("reach_host", name, services.other.port)
        assert with_socket == "reached", "its own socket takes it, and the hub ends it"
    assert len(services.other.requests) == before


def test_it_hides_a_request_to_another_host(scene: Scene, services: Services) -> None:
    listed, other = services.listed.port, services.other.port
    begin = f"http://api.example.com:{listed}/ HTTP/1.1\r\nHost: localhost:{other}\r\n"
    hidden = f"GET http://localhost:{other}/ HTTP/1.1\r\nHost: api.example.com:{listed}\r\n\r\n"
    before = len(services.other.requests)
    for rest in (
        f"GET {begin}\r\n{hidden}",
        f"POST {begin}Content-Length: 3\r\n\r\nabc{hidden}",
        f"POST {begin}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
    ):
        found = scene.attack("exchange", rest)
        assert found.startswith("HTTP/1.1 200 ") and found.count("HTTP/1.1 403 ") == 1, found
    for rest in (
        f"POST {begin}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        f"POST {begin}Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
        f"GET http://api.example.com:{listed}/\rHost: localhost:{other} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"CONNECT api.example.com:{listed}\rlocalhost:{other} HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        found = scene.attack("exchange", rest)
        assert found.startswith("HTTP/1.1 400 ") and "200" not in found, found
    assert len(services.other.requests) == before
    assert all(
        f"Host: api.example.com:{listed}".encode() in one for one in services.listed.requests if one[:3] == b"GET"
    )


def test_it_asks_for_names_that_look_like_listed_ones(scene: Scene, services: Services) -> None:
    port = services.listed.port
    for name in (
        *("аpi.example.com", "api.example.com.evil.example", "evil-api.example.com", "xn--pi-6kc.example.com"),
        *(
            "api.example.com\0.evil.example",
            "api.example.com%00",
            "api.example.com/",
            "api.example.com:1",
            "*.example.com",
        ),
    ):
        found = _connect(scene, f"{name.encode().decode('latin-1')}:{port}")
        assert found.startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 ")), (name, found)
    assert _connect(scene, "api.example.com:443").startswith("HTTP/1.1 403 ")


def test_it_uses_the_proxy_of_another_program(scene: Scene, services: Services) -> None:
    port = services.listed.port
    assert _connect(scene, f"api.example.com:{port}", "neighbour").startswith("HTTP/1.1 403 ")
    assert scene.attack("reach", 3128, server="free").startswith("refused: ")
    environment = json.loads(scene.attack("environment", server="free"))
    assert not {name.lower() for name in environment} & {"http_proxy", "https_proxy", "all_proxy"}


def test_it_opens_very_many_connections(scene: Scene) -> None:
    """Half requests, beside which the other programs and the hub go on; its own proxy serves it again afterwards."""
    assert scene.attack("hold", 3 * LIMITS.connections) == str(3 * LIMITS.connections)
    assert _connect(scene, "api.example.com:443", "neighbour").startswith("HTTP/1.1 403 ")
    assert scene.hub.get("/healthz")[0] == 200
    assert scene.attack("let_go") == "closed"
    until(lambda: _connect(scene, "api.example.com:443").startswith("HTTP/1.1 403 "))


@pytest.mark.parametrize("way", WAYS_WITHOUT, ids=lambda way: way.name)
def test_it_is_not_started_where_nothing_could_enforce_its_list(way: Way, services: Services) -> None:
    with attacked(way, services) as scene:
        until(lambda: scene.attack("processes", server="free").isdecimal())
        said = until(lambda: (text := scene.attack("processes")) and "cannot be started" in text and text)
        assert "has a list of hosts, and this machine has no namespaces to enforce it" in said
