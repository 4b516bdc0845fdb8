"""The times of what happened within the last while: a window that moves, so that no count begins anew at an edge."""

from __future__ import annotations

from collections import deque


class RecentTimes(deque[float]):
    """Times of one clock in seconds, the oldest first; `append` adds one. For one thread at a time."""

    __slots__ = ()

    def forget_until(self, oldest: float) -> None:
        """Forget the times that are not after `oldest`. The cost is that of the forgotten ones."""
        while self and self[0] <= oldest:
            self.popleft()
