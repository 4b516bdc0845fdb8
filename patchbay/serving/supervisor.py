"""`patchbay serve`: worker processes under one supervisor, their start and their end.

The supervisor never loads the application, so that a broken definition cannot stop it. It replaces a worker that ends;
on SIGTERM every worker drains (`serving/drain.py`) and is killed some seconds after the end of its drain.
"""

from __future__ import annotations

import http.client
import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.synchronize import Semaphore
from typing import Any

from patchbay import exit_codes
from patchbay.errors import PatchbayError
from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.programs import describe_missing_protections
from patchbay.processes.confinement.protections import protect_hub
from patchbay.serving import logs
from patchbay.serving.descriptors import ensure_descriptors, fitting_connections
from patchbay.serving.drain import SIGNALS
from patchbay.serving.garbage import leave_out_what_lasts, without_collections
from patchbay.serving.heartbeats import Heartbeats
from patchbay.serving.hub_application import HubApplication
from patchbay.serving.hub_url import host_header, hub_note, hub_url, public_url, reachable
from patchbay.serving.next_step import describe_next_step
from patchbay.serving.overflow import Overflow
from patchbay.serving.respawning import Supervisor
from patchbay.serving.worker import serve_front
from patchbay.settings import OPEN, SHARED, Settings, forget_request_variables
from patchbay.stores.folder_lock import claim_folder
from patchbay.stores.reserve import FULL_DISK, keep_reserve, release_reserve
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.front import Front
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.front.slow_clients import SlowClientWatch
from patchbay.wire.front.sockets import return_large_blocks
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.work_limits import EXTRA_THREADS, WorkLimits

log = logging.getLogger(__name__)

KILL_GRACE_SECONDS = 5
"""Seconds between the end of a drain and the kill."""

READY_POLL_SECONDS = 0.05
"""Seconds between two questions whether the hub is ready."""

MAX_IDLE_CONNECTIONS = 4096
"""Connections that may be open in each worker beside those that listen or hold a thread."""


class AddressTaken(PatchbayError):
    """The address to listen on is in use or not available."""


class OnceAcrossProcesses:
    """An event that happens at most once among all processes of one hub."""

    def __init__(self) -> None:
        self._left = multiprocessing.Semaphore(1)

    def is_first(self) -> bool:
        """Whether this is the first call in any process."""
        return self._left.acquire(block=False)

    @property
    def has_happened(self) -> bool:
        """Whether there was a call in any process."""
        return bool(self._left.get_value() == 0)


def serve(settings: Settings, create_app: Callable[[Settings], HubApplication]) -> int:
    """Serve until a signal ends the hub; return the exit code. Raises AddressTaken, and FolderInUse beside another hub.

    The process ignores SIGTERM and SIGINT from then on: only its end is left.

    `create_app` makes the Flask application of the hub. Each worker calls it; the supervisor does not.
    """
    protect_hub(settings.protections)
    listener = listen(settings.host, settings.port)
    settings = replace(settings, port=listener.getsockname()[1])
    logs.begin(settings)
    settings = ensure_descriptors(settings)
    if settings.store != "memory" and release_reserve(settings.data):
        log.warning(FULL_DISK, settings.data)
    lock = claim_folder(settings.data, hub_note(settings)) if settings.store != "memory" else None
    if lock is not None:
        keep_reserve(settings.data)
        # A worker that outlives the supervisor ends its calls; the next hub may claim the folder meanwhile.
        os.register_at_fork(after_in_child=lock.close)
    # A signal that came between the fork and the worker's own handlers would be lost, and the worker never end.
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals, after_in_child=stand_alone)
    announced, refused = OnceAcrossProcesses(), OnceAcrossProcesses()
    started, heartbeats = multiprocessing.Semaphore(0), Heartbeats(settings.workers)
    code: Any = exit_codes.OK
    try:
        run = partial(run_worker, settings, create_app, announced, refused, started, heartbeats, listener)
        kill_seconds = math.ceil(settings.drain) + KILL_GRACE_SECONDS
        if not Supervisor(settings.workers, run, started, heartbeats, kill_seconds, listener.close).serve():
            code = exit_codes.FAILED
    finally:
        _ignore_signals()
    return code if refused.is_first() else exit_codes.USAGE


def most_connections_of(settings: Settings) -> int:
    """The limit on the connections of one worker, where its descriptors are enough."""
    return settings.listeners + settings.threads + MAX_IDLE_CONNECTIONS


def run_worker(
    settings: Settings,
    create_app: Callable[[Settings], HubApplication],
    announced: OnceAcrossProcesses,
    refused: OnceAcrossProcesses,
    started: Semaphore,
    heartbeats: Heartbeats,
    listener: socket.socket,
    place: int,
) -> None:
    """Serve the requests that come to `listener` in this process, a worker, until a signal ends it.

    The worker writes its heartbeats to this `place`.
    Where the settings or the boot image are refused, says why once, and ends the worker and the supervisor.
    """
    stand_alone()
    protect_hub(settings.protections)
    logs.begin(settings)
    heartbeats.begin(place)
    forget_request_variables()
    with without_collections():
        app = _make_app(settings, create_app, announced, refused)
    parts = app.parts
    parts.health.watch(heartbeats.describe_problem)
    parts.pages.prepare(lambda: parts.for_pages.site.prepare())
    parts.pipeline.at_work = at_work = AtWork(settings.idle_timeout)
    overflow = Overflow(settings.port, fitting_connections(most_connections_of(settings)))
    parts.pipeline.limits = WorkLimits(settings.threads, lambda: overflow.is_short)
    return_large_blocks()
    SlowClientWatch(settings, at_work).watch()
    drain = parts.drain
    threads = RequestThreads(settings.threads + EXTRA_THREADS, EventLoop())
    front = Front(parts.pipeline, parts.dispatcher.services.settings, threads)
    overflow.watch()
    drain.on_begin(overflow.end)
    drain.on_begin(front.drain)
    drain.watch_signals()
    serving = threading.Event()
    threading.Thread(
        target=_end_with_parent, args=(settings.drain + KILL_GRACE_SECONDS,), name="parent", daemon=True
    ).start()
    announce = (settings, announced, serving, started, parts.operators)
    threading.Thread(target=_announce, args=announce, name="announce", daemon=True).start()
    serve_front(front, listener, threads.web_threads, overflow.most, serving.set)
    parts.dispatcher.services.scripts.close()
    parts.dispatcher.services.activity.close()


def _make_app(
    settings: Settings,
    create_app: Callable[[Settings], HubApplication],
    announced: OnceAcrossProcesses,
    refused: OnceAcrossProcesses,
) -> HubApplication:
    """Make the Flask application. Where the settings or the boot image are refused, say why once, and end the hub.

    A hub that has served already goes on with its other workers: a mistake in the boot image does not end it.
    """
    try:
        return create_app(settings)
    except PatchbayError as problem:
        if announced.has_happened:
            log.error("this worker does not start: %s", problem)
            sys.exit(exit_codes.USAGE)
        if refused.is_first():
            print_line(f"patchbay: {problem}")
        os.kill(os.getppid(), signal.SIGTERM)
        sys.exit(exit_codes.USAGE)


def stand_alone() -> None:
    """Make this process end on its signals at once, until the web server installs its handlers.

    It leaves the supervisor's process group: Ctrl-C reaches a whole group, and a worker ends when it is told to.
    """
    os.setpgid(0, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    _let_signals()


def _hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _ignore_signals() -> None:
    """Ignore further stop signals. The interpreter removes its handlers at its end: the exit code would be lost."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _end_with_parent(seconds: float) -> None:
    """End this worker when the supervisor is gone, so that no worker holds the port afterwards."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        _wait_for_end_of(parent)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(seconds)
        os._exit(exit_codes.FAILED)


def _wait_for_end_of(parent: Any) -> None:
    """Return when the parent process has ended.

    The sentinel of `multiprocessing` is a pipe that younger workers keep open, so it tells only the youngest one at
    once. Linux tells each process by a descriptor of the parent (pidfd_open(2)).
    """
    try:
        descriptor = os.pidfd_open(parent.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or a kernel before 5.3
        wait([parent.sentinel])
        return
    try:
        if os.getppid() == parent.pid:  # otherwise the number belongs to another process by now
            wait([descriptor])
    finally:
        os.close(descriptor)


def _announce(
    settings: Settings, announced: OnceAcrossProcesses, serving: threading.Event, started: Semaphore, operators: Any
) -> None:
    """Release `started` once this worker is `serving`; say where the hub is, in one worker only.

    The first full collection of garbage is here, after the first answer.
    """
    pause = threading.Event()
    serving.wait()
    started.release()
    while not ready(settings):
        pause.wait(READY_POLL_SECONDS)
    leave_out_what_lasts()
    if announced.is_first():
        print_line(f"Patchbay is at {hub_url(settings)}/mcp")
        _tell_operator(settings, operators)
        missing = describe_missing_protections(settings.confine, settings.protections, landlock.version())
        if missing:
            log.warning("%s", missing)


def _tell_operator(settings: Settings, operators: Any) -> None:
    """Print how to log in, and the token itself if it is not in a file."""
    if settings.mode == OPEN:
        log.warning("everyone who can reach this hub can read its pages and call its tools (--access open)")
    if settings.mode == SHARED:
        print_line(
            "This hub is shared: each caller signs in. `patchbay invite NAME` makes an invitation for a person, and"
            " `patchbay key new NAME` a key for a program. To make invitations, keys and grants on pages, log in with"
            f" the link below and open {public_url(settings)}/people or {public_url(settings)}/access"
        )
    print_line(f"Log in as the operator (works once, for an hour): {public_url(settings)}{operators.links.make()}")
    if settings.store == "memory":
        print_line(f"The operator's token, shown only now: {operators.token.read_stored()}")
    print_line(describe_next_step(settings))


BACKLOG = 1024
"""Connections that wait to be accepted."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; on any free port for 0. Raises AddressTaken.

    All workers accept from it, so that a connection waits for the next of them when one ends.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as problem:
        listener.close()
        reason = problem.strerror or str(problem)
        raise AddressTaken(f"cannot listen on {host} port {port}: {reason}; --port 0 chooses a free port") from problem
    return listener


def ready(settings: Settings) -> bool:
    """Whether `/readyz` answers 200."""
    connection = http.client.HTTPConnection(reachable(settings.host), settings.port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": host_header(settings)})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def print_line(sentence: str) -> None:
    """Print one line for the person who started the hub."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
