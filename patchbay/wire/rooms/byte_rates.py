"""How many bytes each principal sends to all rooms in a second: the limit `room_bytes_per_second` of quotas.

Each process counts against its share of the limit. A burst has room for one envelope of any allowed size.
Source: RFC 6585, section 4 (429).
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from patchbay.access.principals import Principal
from patchbay.access.quotas import ROOM_BYTES_PER_SECOND, Quotas
from patchbay.errors import OverQuota
from patchbay.rooms.bounds import Rate

MAX_REMEMBERED = 4096
"""Principals whose rates are in the memory of a process."""

RETRY_SECONDS = 1


class ByteRates:
    """The rates of all principals in this process. Safe to use from many threads. A burst has `least` bytes or more."""

    def __init__(self, quotas: Quotas, least: int) -> None:
        self._quotas = quotas
        self._least = least
        self._lock = threading.Lock()
        self._rates: OrderedDict[tuple[str, int], Rate] = OrderedDict()

    def count(self, sender: Principal, size: int) -> None:
        """Count bytes of a principal. Raises OverQuota. The operator, and a principal without a limit, sends more."""
        limit = 0 if sender.is_operator else self._quotas.limits_of(sender).get(ROOM_BYTES_PER_SECOND, 0)
        if limit and not self._find(sender.id, limit).take(size):
            self._quotas.refused[ROOM_BYTES_PER_SECOND] += 1
            whole = limit * self._quotas.processes
            raise OverQuota(f"each caller may send {whole} bytes to rooms in a second; send less", RETRY_SECONDS)

    def _find(self, id: str, limit: int) -> Rate:
        with self._lock:
            # Two tokens of one principal may assert other groups: a change of the limit begins no new burst.
            known = self._rates.get((id, limit))
            if known is None:
                known = self._rates[id, limit] = Rate(limit, self._least)
            self._rates.move_to_end((id, limit))
            while len(self._rates) > MAX_REMEMBERED:
                self._rates.popitem(last=False)
            return known
