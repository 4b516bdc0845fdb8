"""A clock that a test moves: what stores and collections take for the present time."""

from __future__ import annotations

import time
from importlib import import_module

import psycopg
import pytest

READERS = (
    "patchbay.stores.memory",
    "patchbay.stores.sqlite.blobs",
    "patchbay.stores.sqlite.names",
    "patchbay.stores.sqlite.journal",
)
"""The modules that ask this clock."""


class Clock:
    """`now` is Unix time in seconds; a test adds to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        for name in READERS:
            monkeypatch.setattr(import_module(name), "time", self)

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class DatabaseClock(Clock):
    """The clock of one database: the function that all its times come from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
        self._address = address
        monkeypatch.setattr("patchbay.stores.postgresql.clock.StoreClock.now", lambda clock: self.now)
        super().__init__(monkeypatch)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "now":
            function = "CREATE OR REPLACE FUNCTION store_time() RETURNS double precision LANGUAGE sql"
            body = f"{function} AS 'SELECT {value}::float8'"
            with psycopg.connect(self._address, autocommit=True) as connection:
                connection.execute(body.encode())
