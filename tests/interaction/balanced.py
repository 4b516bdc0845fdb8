"""Several hubs on one PostgreSQL behind nginx, without affinity: each request goes to the next of them, in turn.

`running_hub` starts them instead of one hub when the option `--nodes` of the tests, or of `scripts/conformance`, asks
for more than one. The nodes share the servers folder, and each has the key and the operator's token of the first one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.databases import PostgresqlServer
from tests.interaction.programs import Hub, free_port, running
from tests.serving.proxies import nginx_programs

CONFIG = """
{user} worker_processes 1; daemon off; pid nginx.pid; error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/answers;
    client_max_body_size 0;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    upstream hub {{ {servers} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://hub;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream off;
            proxy_pass_header X-Accel-Buffering;
        }}
    }}
}}
"""


def value_of(options: Sequence[str], name: str) -> str:
    """Return the value of an option of a command; empty without it."""
    return next((options[place + 1] for place, word in enumerate(options) if word == name), "")


@contextmanager
def running_nodes(
    folder: Path,
    servers: Path,
    prefix: Sequence[str],
    options: Sequence[str],
    environment: Mapping[str, str] | None,
    count: int,
) -> Iterator[Hub]:
    """Start so many hubs with these options, and nginx in front. Process id and log are those of the first one."""
    with ExitStack() as stack:
        store = value_of(options, "--store")
        if not store:
            server = PostgresqlServer()
            stack.callback(server.close)
            store = server.new_schema()
        data = Path(value_of(options, "--data") or folder / "data")
        key = data.with_name(f"{data.name}.key")
        if not key.exists():
            key.write_text(secrets.token_hex(32))
        ports = [free_port() for _ in range(count)]
        nodes = []
        for number, port in enumerate(ports):
            own = folder if number == 0 else folder / f"node{number}"
            own.mkdir(exist_ok=True)
            place = data if number == 0 else data.with_name(f"{data.name}-node{number}")
            if number:
                # Programs of the first node may write into its own folders of programs at the moment.
                shutil.copytree(data, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("programs"))
            command = [*prefix, sys.executable, "-m", "patchbay", "serve", "--servers", str(servers), *options]
            command += ["--port", str(port), "--data", str(place), "--store", store, "--key-file", str(key)]
            ready = f"http://127.0.0.1:{port}/readyz"
            process = stack.enter_context(running(command, ready, own, environment=environment))
            nodes.append((f"http://127.0.0.1:{port}", process.pid))
        url = stack.enter_context(balanced(folder, ports))
        yield Hub(url, servers, folder / "log", nodes[0][1], tuple(nodes))


@contextmanager
def balanced(folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """Run nginx in front of some ports; the address."""
    own = folder / "nginx"
    own.mkdir()
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    servers = " ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
    (own / "nginx.conf").write_text(CONFIG.format(user=user, folder=own, servers=servers, port=port))
    program = next(path for path in nginx_programs() if path.exists())
    command = [str(program), "-p", str(own), "-c", str(own / "nginx.conf")]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/readyz", own):
        yield url
