"""The least that a call in another process can cost: a request and its answer between two Python processes.

    python -m benchmarks.process_hop [CALLS]     default 20,000; prints one line of JSON

Both ends write and read JSON, over a pair of sockets, one call at a time: one send and one receive on each side. There
are no deadlines, no checks and no events: this is the floor under what an isolated call adds to an inline one.
"""

from __future__ import annotations

import os
import resource
import socket
import sys

import orjson

from benchmarks.load import EXPECTED

RECEIVED_BYTES = 65536


def answer_calls(end: socket.socket) -> None:
    """Answer each request until the other end is closed."""
    while data := end.recv(RECEIVED_BYTES):
        asked = orjson.loads(data)
        end.send(orjson.dumps({"id": asked["id"], "result": asked["arguments"]["message"]}))


def processor_seconds(who: int) -> float:
    """Return the processor time of this process, or of its ended children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure_hop(calls: int) -> dict[str, float]:
    """Return the processor time of a call on both sides together, and of the side that asks, in microseconds."""
    asking, answering = socket.socketpair()
    child = os.fork()
    if child == 0:
        asking.close()
        answer_calls(answering)
        os._exit(0)
    answering.close()
    before = processor_seconds(resource.RUSAGE_SELF)
    for number in range(calls):
        asking.send(orjson.dumps({"id": number, "tool": "echo", "arguments": {"message": EXPECTED}}))
        answered = orjson.loads(asking.recv(RECEIVED_BYTES))
        if answered != {"id": number, "result": EXPECTED}:
            raise RuntimeError(f"call {number} got the answer {answered}")
    own = processor_seconds(resource.RUSAGE_SELF) - before
    asking.close()
    os.waitpid(child, 0)
    both = own + processor_seconds(resource.RUSAGE_CHILDREN)
    return {"processor_us": both / calls * 1e6, "asking_us": own / calls * 1e6}


if __name__ == "__main__":
    sys.stdout.write(orjson.dumps(measure_hop(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)).decode() + "\n")
