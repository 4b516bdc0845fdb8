"""The health of a mounted server, as a value for pages and error messages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["connecting", "up", "down", "circle", "sign-in"]
"""`circle`: its own lists lead back to this hub, so it is not served. `sign-in`: no caller has connected an account."""


@dataclass(frozen=True, slots=True)
class Health:
    """The state since `since` (Unix time, seconds).

    `reason` explains `down`, without secrets; `tries` is the number of failed attempts, `retry` the seconds between the
    last attempt and the next. `revision` is the protocol revision in use, empty without a connection.
    """

    state: State = "connecting"
    reason: str = ""
    revision: str = ""
    tries: int = 0
    retry: float = 0.0
    since: float = field(default_factory=time.time)

    @property
    def sentence(self) -> str:
        """The state as a sentence."""
        if self.state == "up":
            return f"it answers, in revision {self.revision}"
        if self.state == "connecting":
            return "it is being reached for the first time"
        if self.state == "sign-in":
            return "its lists are read as soon as the first caller has connected an account there"
        if self.state == "circle":
            return f"it is not served: {self.reason}"
        return f"it does not answer: {self.reason}; it is tried again every {self.retry:g} s or so"

    def data(self) -> dict[str, Any]:
        """Return the health as a JSON object."""
        return {
            "state": self.state,
            "reason": self.reason,
            "revision": self.revision,
            "tries": self.tries,
            "since": self.since,
            "sentence": self.sentence,
        }
