"""A PgBouncer in transaction mode for tests, of Debian's package `pgbouncer`; `scripts/peers` installs it as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg

from tests.databases import ORDINARY_USER, PostgresqlServer
from tests.interaction.programs import free_port
from tests.local_services import LocalService
from tests.waiting import until

PROGRAM = Path("/usr/sbin/pgbouncer")

CONFIG = """
[databases]
* = host=127.0.0.1 port={database} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
log_connections = 0
log_disconnections = 0
"""
"""Four connections to the server for each database: fewer than a store has to the pooler."""


class Bouncer(LocalService):
    """A pooler of transactions in front of a server. Each test has a database of its own.

    The pooler refuses an address with a schema, and it refuses to run as root.
    """

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__("pgbouncer")
        self._server = server
        self._databases = 0
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start the pooler; it answers when this returns."""
        config = self._folder / "pgbouncer.ini"
        config.write_text(CONFIG.format(database=self._server.port, port=self.port, user=self._server.owner))
        is_root = os.geteuid() == 0
        if is_root:
            shutil.chown(self._folder, "nobody", "nogroup")
        command = [*(ORDINARY_USER if is_root else ()), str(PROGRAM), str(config)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log)
        until(self._answers, lambda: f"PgBouncer answers: {(self._folder / 'log').read_text()[-2000:]}")

    def new_database(self) -> tuple[str, str]:
        """Make an empty database; return its address through the pooler, and that of the server itself."""
        self._databases += 1
        name = f"pooled_{self._databases}"
        self._server.execute(f"CREATE DATABASE {name}")
        direct = self._server.address.replace("/postgres", f"/{name}")
        return direct.replace(f":{self._server.port}/", f":{self.port}/"), direct

    def _answers(self) -> bool:
        try:
            address = self._server.address.replace(f":{self._server.port}/", f":{self.port}/")
            with psycopg.connect(address, prepare_threshold=None) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True
