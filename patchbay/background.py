"""Work on a thread of its own: a loop that runs a function every few seconds or when woken, or one function once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds until the next round after one that failed."""

Round = Callable[[], float | None]
"""Does one round of the work; returns the seconds until the next round, or None to end the thread."""


def run_in_background(name: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a function once, on a new daemon thread with this name; an Exception that it raises is logged.

    Raises RuntimeError if the system has no thread left; the function is not called then.
    """
    threading.Thread(target=_run_once, args=(name, function, arguments), name=name, daemon=True).start()


def _run_once(name: str, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    try:
        function(*arguments)
    except Exception:
        log.exception("the thread %s failed", name)


class BackgroundLoop:
    """Runs one function again and again on a daemon thread, from `start` to `stop`. Safe to use from many threads.

    `run_round` does one round. It may wait, if it returns soon after `ending` is set. When it raises
    an Exception, the log gets `failure` with the traceback, and the next round follows after `retry_seconds`. When it
    returns None, the thread ends, and `start` begins a new one. `first_after` is the number of seconds from `start` to
    the first round. `finish` runs on the thread when it ends, for either reason.
    """

    def __init__(
        self,
        name: str,
        run_round: Round,
        failure: str,
        *,
        retry_seconds: float = RETRY_SECONDS,
        first_after: float = 0.0,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.ending = threading.Event()
        """Set by `stop`; a round that waits for something else waits for this too."""
        self._run_round = run_round
        self._failure = failure
        self._retry_seconds = retry_seconds
        self._first_after = first_after
        self._finish = finish
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_started_again = False

    def start(self) -> bool:
        """Start the thread, unless it runs or `stop` was called; return whether this call started it.

        A round that is about to return None does not end a thread that was started again in the meantime. Raises
        RuntimeError if the system has no thread left; the loop is not started then.
        """
        with self._lock:
            if self.ending.is_set():
                return False
            # A forked process has the object, and not the thread.
            if self._thread is not None and self._thread.is_alive():
                self._is_started_again = True
                return False
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            thread.start()
            self._thread = thread
            return True

    def wake(self) -> None:
        """Begin the next round now, or at once after the one that runs."""
        self._woken.set()

    def stop(self) -> None:
        """Let the thread end after the round that runs; returns at once, and can be called from the round."""
        self.ending.set()
        self._woken.set()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, at most this many seconds; returns at once on the thread itself."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def close(self, seconds: float) -> None:
        """Stop, and wait until the thread has ended, at most this many seconds."""
        self.stop()
        self.join(seconds)

    @property
    def is_started(self) -> bool:
        """Whether there is a thread, which may be about to end."""
        return self._thread is not None

    def _run(self) -> None:
        pause: float | None = self._first_after
        while pause is not None and not self._is_ended_after(pause):
            pause = self._run_safely()
        if self._finish is not None:
            try:
                self._finish()
            except Exception:
                log.exception("%s: the end of the thread failed", self.name)

    def _is_ended_after(self, seconds: float) -> bool:
        """Wait until the next round is due; return whether the thread ends instead."""
        if seconds > 0:
            self._woken.wait(min(seconds, threading.TIMEOUT_MAX))
        # First cleared, then asked: a `stop` between the two is seen by the question.
        self._woken.clear()
        return self.ending.is_set()

    def _run_safely(self) -> float | None:
        with self._lock:
            self._is_started_again = False
        try:
            pause = self._run_round()
        except Exception:
            log.exception("%s", self._failure)
            return self._retry_seconds
        if pause is None:
            with self._lock:
                if self._is_started_again:
                    pause = 0.0
                elif self._thread is threading.current_thread():
                    self._thread = None
        return pause
