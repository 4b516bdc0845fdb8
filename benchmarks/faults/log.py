"""What the clients of a load asked, what they were answered and what they heard."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

DONE, REFUSED, BROKEN, ENDLESS = "done", "refused", "broken", "endless"
"""How an operation ended: as asked, with an error of the hub, with its connection, or not within LIMIT_SECONDS."""

LIMIT_SECONDS = 120.0
"""Seconds without a byte after which an operation counts as one without an end."""

SLOW_SECONDS = 3.0
"""Seconds from which on an operation, or the way of a message to another node, is not normal."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a client at a node, with monotonic times in seconds."""

    node: int
    kind: str
    begun: float
    ended: float
    outcome: str
    reason: str = ""


@dataclass
class Log:
    """All operations. `written` has the acknowledged numbers of each name, `tried` those that were sent.

    `envelopes` has the time of each acknowledged message, `heard` when each node heard it; `audited` are texts of
    calls that were answered; `contents` are CIDs of acknowledged contents with their sizes. `changes` has the time of
    each acknowledged version of a server, `seen` when a subscriber at each node found it in the list.
    """

    operations: list[Operation] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    written: dict[str, list[int]] = field(default_factory=dict)
    tried: dict[str, list[int]] = field(default_factory=dict)
    envelopes: dict[str, float] = field(default_factory=dict)
    heard: list[dict[str, list[float]]] = field(default_factory=list)
    audited: list[tuple[int, str]] = field(default_factory=list)
    contents: dict[str, int] = field(default_factory=dict)
    changes: dict[int, float] = field(default_factory=dict)
    seen: list[dict[int, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count_acknowledged(self) -> int:
        """Return the number of writes and calls that were answered as usual."""
        return sum(map(len, [*self.written.values()])) + len(self.contents) + len(self.envelopes) + len(self.audited)

    def note(self, node: int, kind: str, begun: float, outcome: str, reason: str = "") -> None:
        """Note an operation that has just ended."""
        self.operations.append(Operation(node, kind, begun, time.monotonic(), outcome, reason))

    def note_wrong(self, sentence: str) -> None:
        """Note an answer that is not what was asked for."""
        self.wrong.append(sentence)
