"""Runs one animal over standard input and output: `python -S over_stdio.py NAME [direct]`.

`direct` keeps it out of the log, which counts what the hub starts and sends. ZOO_START_SECONDS delays the start.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from itertools import cycle
from queue import Empty, Queue
from typing import Any

from tests.zoo.animals import ANIMALS, CHATTER, POLL_SECONDS, AnswersInAnotherOrder, SlowToStart, note, wait_for

_WRITING = threading.Lock()
_NEVER = threading.Event()
HOLD_SECONDS = 0.05
"""How long an animal that answers in another order holds an answer back, without a further message."""


def main(name: str, is_direct: bool) -> None:
    """Answer the messages of standard input until it ends."""
    animal = ANIMALS[name]()

    def write(message: Any) -> None:
        line = "".join(f"{noise}{animal.newline}" for noise in animal.banner) + json.dumps(message) + animal.newline
        with _WRITING:
            sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()

    def record(what: str) -> None:
        if not is_direct:
            note(name, "stdio", what)

    record("start")
    _NEVER.wait(float(os.environ.get("ZOO_START_SECONDS", "0")))
    if isinstance(animal, SlowToStart) and not is_direct:
        wait_for("started")
    if animal.is_chatty:
        threading.Thread(target=chat, args=(write,), daemon=True).start()
    messages: Queue[bytes | None] = Queue()
    threading.Thread(target=read, args=(messages,), daemon=True).start()
    held: Any = None
    while True:
        try:
            line = messages.get(timeout=HOLD_SECONDS if held is not None else None)
        except Empty:
            write(held)
            held = None
            continue
        if line is None:
            return
        message = json.loads(line)
        record(message.get("method", "answer"))
        for found in animal.answer(message):
            if isinstance(animal, AnswersInAnotherOrder) and held is None:
                held = found
                continue
            write(found)
            if held is not None:
                write(held)
                held = None
        if animal.ends_after_calls and message.get("method") == "tools/call":
            os._exit(0)


def read(messages: Queue[bytes | None]) -> None:
    for line in sys.stdin.buffer:
        messages.put(line)
    messages.put(None)


def chat(write: Any) -> None:
    for message in cycle(CHATTER):
        write({"jsonrpc": "2.0", **message})
        _NEVER.wait(POLL_SECONDS * 3)


if __name__ == "__main__":
    main(sys.argv[1], "direct" in sys.argv[2:])
