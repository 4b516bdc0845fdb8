"""The limits of what one program has at its proxy."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CONNECTIONS_OF_ALL = 1024
"""Connections of all programs of this process at a time; each has two descriptors."""

BUFFER_BYTES = 65536
"""Bytes that one direction of a connection holds at most, beside one piece of the same size."""


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """`connections` are those of the program at a time; the others are in seconds.

    `request` is the time in which a request must have come, `between` the same for the next one of a connection.
    `idle` is the time without a byte in either direction after which a connection ends, `half_closed` the same where
    one side has ended its direction.
    """

    connections: int = 128
    request: float = 20.0
    between: float = 60.0
    idle: float = 1800.0
    half_closed: float = 120.0
