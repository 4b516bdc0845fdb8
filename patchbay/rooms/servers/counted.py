"""The quota places of open calls: what counts a call against the quotas of its caller, until its result.

The process that took a call counts it. Every process reads every entry of the log, so that the place is released
whichever process logs the result.
"""

from __future__ import annotations

import threading

from patchbay.activation import CallPlace


class CountedCalls:
    """The places of open calls by the seq of the call, since a `callId` may be used again. Safe to use from many
    threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, dict[int, CallPlace]] = {}

    def hold(self, call: str, seq: int, place: CallPlace) -> None:
        """Keep the place of a call that was logged at `seq` until `release`."""
        with self._lock:
            self._places.setdefault(call, {})[seq] = place

    def release(self, call: str, before: int) -> None:
        """Release the places of a call that was logged before the seq `before`; without one, do nothing."""
        with self._lock:
            held = self._places.get(call, {})
            places = [held.pop(seq) for seq in list(held) if seq < before]
            if not held:
                self._places.pop(call, None)
        for place in places:
            place.release()
