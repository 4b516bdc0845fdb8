"""A program that is run many times: one process imports it, and each run is a fork of that process.

    python -m tests.conformance.forks PLACE MODULE         hold a module, and run its `main` for each request
    python -I -S tests/conformance/forks.py PLACE [WORD]... ask for a run with these words

A run has the environment, the folder and the standard streams of the process that asks; that one ends when the run
has ended, with its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

SIZE = 4
"""Bytes of the number that says how long an order is."""


def ask(place: str, words: list[str]) -> int:
    """Have `main(*words)` run with all that this process has; answers its exit code, 1 when the run was killed."""
    order = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        socket.send_fds(line, [len(order).to_bytes(SIZE, "big")], [0, 1, 2])
        line.sendall(order)
        said = b""
        while piece := line.recv(1):
            said += piece
    return said[0] if said else 1


def hold(place: str, module: str) -> None:
    """Import a module, then fork for everyone who asks, until this process is ended."""
    from importlib import import_module

    main = import_module(module).main
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # runs that have ended need no one to wait for them
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(128)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                break
            line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words = _taken(line)
    code = 1
    try:
        main(*words)
        code = 0
    finally:
        line.sendall(bytes([code]))
        line.detach()  # it closes with the process: until then the run has not ended


def _taken(line: socket.socket) -> list[str]:
    """Become what the process that asks is; answers the words."""
    head, streams, _, _ = socket.recv_fds(line, SIZE, 3)
    with line.makefile("rb") as reading:
        order = json.loads(reading.read(int.from_bytes(head, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    return list(order["words"])


if __name__ == "__main__":
    if __package__:
        hold(sys.argv[1], sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
