"""The address of a database, and how a connection is opened: time limits, keepalives, the name of the program.

Sources: https://www.postgresql.org/docs/current/libpq-connect.html, runtime-config-client.html.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from patchbay.errors import ConfigError

CONNECT_SECONDS = 3
"""Seconds that opening a connection may take."""

OPTIONS: dict[str, Any] = {
    "application_name": "patchbay",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Defaults of a connection; the address wins."""

LIMITS = (
    "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s';"
    " SET client_min_messages = warning"
)
"""Limits of a session. They are set by a statement, because PgBouncer refuses them in the address."""


def parse_address(address: str) -> str:
    """Return the connection string of an address with our options.

    Raises ConfigError for an address that libpq cannot read, and for one with a password, which would be shown on pages
    and in lists of processes.
    """
    try:
        given = conninfo_to_dict(address)
    except psycopg.ProgrammingError as problem:
        raise ConfigError("the setting store", "", f"expected postgresql://user@host/db: {problem}") from problem
    if "password" in given:
        raise ConfigError(
            "the setting store",
            "",
            "the address has a password: take it out, and set PGPASSWORD, or PGPASSFILE to a file with it",
        )
    return make_conninfo(**{**OPTIONS, **{name: value for name, value in given.items() if value is not None}})


def is_redis_address(address: str) -> bool:
    """Whether the address of the bus is that of a Redis or Valkey."""
    return address.startswith(("redis://", "rediss://"))


def describe_address(address: str) -> str:
    """Return the user, host and database of an address as a text for people."""
    given = conninfo_to_dict(address)
    where = given.get("host") or given.get("service") or "the local socket"
    return f"{given.get('dbname') or given.get('user') or 'the default database'} at {where}"


def set_limits(connection: psycopg.Connection[Any]) -> None:
    """Set the time limits of a new connection."""
    connection.execute(LIMITS)
