"""A worker process of the web server whose requests run where they arrive: on the web server's own threads.

The web server's native interface (RSGI) hands each request to a scheduler, which puts it on an event loop. This
scheduler calls the front instead, on the thread that brought the request: a call costs what it costs through WSGI, and
a stream costs no thread. The shape of the worker follows Granian's own (`granian/server/mp.py`), whose range in
`pyproject.toml` is narrow for that reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from granian._granian import CallbackScheduler, RSGIWorker
from granian._signals import set_sync_signals
from granian.server.common import WORKERS_METHODS
from granian.server.mp import WorkerProcess

from patchbay.serving.signal_event import SignalEvent

log = logging.getLogger(__name__)


class DirectCallbacks:
    """In place of an event loop: what the web server has a result for is called at once, on the web server's thread."""

    def call_soon_threadsafe(self, callback: Callable[[Any], None], result: Any, context: Any = None) -> None:
        try:
            callback(result)
        except Exception:
            log.exception("a request failed in the front")

    call_soon = call_soon_threadsafe


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]
def serve_natively(  # type: ignore[no-untyped-def]
    worker_id, front, sock, ipc, loop, mode, threads, blocking_threads, python_threads, *options
) -> None:
    """Serve until told to end. `front` takes each request; `options` are those of the web server, in its order."""
    idle, backpressure, _, http, http1, http2, websockets, static, _, tls, _, metrics = options
    backpressure = min(backpressure, front.connections or backpressure)
    ended = SignalEvent()
    signal = set_sync_signals()  # type: ignore[no-untyped-call]
    signal.add_cb(ended.set)
    worker = RSGIWorker(
        *(worker_id, sock, ipc, threads, blocking_threads, python_threads, idle, backpressure),
        *(http, http1, http2, websockets, static, *tls, metrics),
    )
    # Granian's stubs leave out what these two lines use.
    make_scheduler: Any = CallbackScheduler
    scheduler = make_scheduler(loop, None, None, None, None)
    scheduler._schedule_fn = front
    serve = getattr(worker, WORKERS_METHODS[mode][(sock[0] or sock[1]).is_uds()])
    serve(scheduler, DirectCallbacks(), signal)
    wait_for_end(ended)
    front.finish()


def wait_for_end(ended: SignalEvent) -> None:
    """What the main thread of a worker does while it serves."""
    ended.wait()
