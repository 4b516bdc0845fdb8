"""When the supervisor gives up, after workers in a row that ended at once, and when it does not."""

from __future__ import annotations

import subprocess
import sys

from patchbay.serving.respawning import MAX_SHORT_LIVES, SHORT_LIFE_SECONDS, ShortLives
from tests.checkout import ROOT
from tests.waiting import BOUND

SUPERVISED = """
import multiprocessing, os, resource, signal, sys, threading
from patchbay.serving.heartbeats import Heartbeats
from patchbay.serving.respawning import Supervisor, Worker

first = Worker.__init__
starts = []


def begin(self, *arguments):
    starts.append(self)
    if len(starts) == 2:
        raise BlockingIOError(11, "Resource temporarily unavailable")  # as fork(2) without a free process number
    first(self, *arguments)
    if len(starts) == 3:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()


def work(place):
    if multiprocessing.current_process()._identity == (1,):
        os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pause()


Worker.__init__ = begin
ended = Supervisor(1, work, multiprocessing.Semaphore(0), Heartbeats(1), 5.0, lambda: None).serve()
print(ended, len(starts))
"""


DEADLOCKED = """
import multiprocessing, os, signal, threading
from patchbay.serving import heartbeats
from patchbay.serving.respawning import Supervisor

heartbeats.BEGIN_SECONDS = heartbeats.HUNG_SECONDS = 0.5
held = threading.Lock()
threading.Thread(target=held.acquire).start()


def work(place):
    if multiprocessing.current_process()._identity == (1,):
        held.acquire()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    beats.begin(place)
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()


beats = heartbeats.Heartbeats(1)
print(Supervisor(1, work, multiprocessing.Semaphore(0), beats, 5.0, lambda: None).serve())
"""


def test_the_last_of_too_many_workers_in_a_row_that_ended_at_once_is_noticed() -> None:
    lives = ShortLives()
    assert [lives.add(SHORT_LIFE_SECONDS) for _ in range(MAX_SHORT_LIVES)] == [False] * (MAX_SHORT_LIVES - 1) + [True]


def test_a_worker_that_lived_longer_begins_the_count_again() -> None:
    lives = ShortLives()
    for _ in range(3):
        assert [lives.add(0.1) for _ in range(MAX_SHORT_LIVES - 1)] == [False] * (MAX_SHORT_LIVES - 1)
        assert not lives.add(SHORT_LIFE_SECONDS + 1)


def test_a_process_that_cannot_be_started_now_is_tried_again_and_the_hub_still_stops_on_a_signal() -> None:
    """fork(2): EAGAIN and ENOMEM are likely just when a worker was killed for its memory."""
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISED], cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert (done.stdout, done.returncode) == ("True 3\n", 0), done.stderr


def test_a_worker_that_never_begins_because_of_a_lock_from_before_its_fork_is_replaced() -> None:
    """fork(2): the child has a copy of each lock that another thread held, which no thread releases."""
    done = subprocess.run(
        [sys.executable, "-c", DEADLOCKED], cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert "has not responded" in done.stderr
