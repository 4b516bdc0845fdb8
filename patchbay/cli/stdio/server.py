"""`patchbay stdio`: one server on standard input and output.

Standard output belongs to the protocol: other output of the process goes to standard error. The process ends when the
input ends (running calls may finish), when the reader of the output is gone, or on a signal.
"""

from __future__ import annotations

import os
import threading
from functools import partial

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.assembly import assemble
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.cli.stdio.streams import (
    CALL_GRACE_SECONDS,
    CANCELLED_GRACE_SECONDS,
    EndSignal,
    take_standard_streams,
)
from patchbay.processes.confinement.protections import protect_hub
from patchbay.serving import logs
from patchbay.serving.drain import Drain
from patchbay.settings import Settings
from patchbay.topics import ENDING
from patchbay.wire.pipes.native import NativePipe
from patchbay.wire.pipes.stdio import Pipe


def serve_stdio(settings: Settings, server: str, native: bool = False) -> None:
    """Serve one server (`name` or `name@cid`), or with `native` the whole hub, until the end of the process.

    The programs of other servers start when a tool calls them.
    Raises UnknownServer, UnavailableServer, ConfigError or ContentError before it reads input.
    """
    protect_hub(settings.protections)
    source, sink = take_standard_streams()
    end_signal = EndSignal()
    logs.begin(settings)
    drain = Drain(CANCELLED_GRACE_SECONDS)
    name = server.partition("@")[0]
    dispatcher = assemble(settings, drain.seconds_left, needed=NeededServers([name] if name else None))
    catalogue = dispatcher.services.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish_here(ENDING))
    try:
        dispatcher.server(server, LOCAL_OPERATOR, operator=True)
        speak = NativePipe if native else partial(Pipe, endpoint=server)
        client = speak(dispatcher, read=partial(os.read, source), write=partial(os.write, sink), gone=end_signal.notify)

        def read() -> None:
            client.serve()
            drain.begin()
            client.finish(CALL_GRACE_SECONDS)
            end_signal.notify()

        threading.Thread(target=read, name="input", daemon=True).start()
        end_signal.wait()
        drain.begin()
        client.close(CANCELLED_GRACE_SECONDS)
    finally:
        dispatcher.services.activity.close()
        catalogue.close()
        catalogue.store.close()
