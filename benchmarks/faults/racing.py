"""Writers at all nodes change one name, one document of grants and one room at the same time."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import orjson

from benchmarks.faults.checking import Figures, check_room, count_each
from benchmarks.faults.cluster import Cluster
from benchmarks.faults.load import Client, Refusal, Writer
from benchmarks.faults.log import DONE, LIMIT_SECONDS, SLOW_SECONDS, Log
from benchmarks.faults.running import prepare
from patchbay.stores.postgresql import PostgresqlStore
from tests.serving.running import Hub

WRITERS, WRITES = 4, 10
"""Writers at each node, and acknowledged writes of each."""

GRANTS = '{"groups": {"count%d": ["ann"]}, "grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]}'
NUMBER = re.compile(r"count(\d+)")
VARIABLE, ACCESS = "/variables/shared", "/variables/access"


def race(cluster: Cluster) -> Figures:
    """Let the writers race; return the figures of their writes."""
    log = Log()
    prepare(cluster.hubs, log)
    begun = time.monotonic()
    first = Client(cluster.hubs[0], 0, log, threading.Event())
    for path, text in ((VARIABLE, "count%d"), (ACCESS, GRANTS)):
        first.send("PUT", path, (text % 0).encode(), Content_Type="text/plain")
    first.close()
    with ThreadPoolExecutor(3 * WRITERS * len(cluster.hubs)) as pool:
        works = [
            pool.submit(work, hub, node, log)
            for node, hub in enumerate(cluster.hubs)
            for work in (_counting(VARIABLE, "count%d"), _counting(ACCESS, GRANTS), _say)
            for _ in range(WRITERS)
        ]
        for work in works:
            work.result(2 * LIMIT_SECONDS)
    figures = Figures(acknowledged=sum(map(len, log.written.values())) + len(log.envelopes))
    with closing(PostgresqlStore(cluster.store)) as store:
        for path in (VARIABLE, ACCESS):
            name = path.removeprefix("/")
            contents = [store.blobs.get(change.cid) for change in store.names.past(name, 10_000) if change.cid]
            count_each(figures, name, log.written[name], [_number_in(content) for content in contents])
        log.heard = []
        check_room(figures, log, store, frozenset())
    slow = [one for one in log.operations if one.ended - one.begun > SLOW_SECONDS or one.outcome != DONE]
    figures.seconds = round(max([one.ended - one.begun for one in slow], default=0.0), 1)
    figures.longest = round(max([one.ended - one.begun for one in log.operations], default=0.0), 1)
    figures.late = f"all writes took {time.monotonic() - begun:.1f} s"
    return figures


def _number_in(data: bytes) -> int:
    found = NUMBER.search(data.decode())
    return int(found[1]) if found else -1


def _counting(path: str, text: str) -> Callable[[Hub, int, Log], None]:
    """Return the work of a writer that raises the number in a variable, on the condition that it is the present one."""

    def count(hub: Hub, node: int, log: Log) -> None:
        client = Client(hub, node, log, threading.Event())
        done = 0
        while done < WRITES:
            answer = client.open("GET", f"{path}.json")
            data = answer.read()
            number = _number_in(orjson.loads(data)["value"].encode()) + 1
            tag = answer.headers.get("ETag", "")
            try:
                client.send("PUT", path, (text % number).encode(), If_Match=tag, Content_Type="text/plain")
            except Refusal as problem:
                if ": 412 " not in str(problem) and ": 409 " not in str(problem):
                    raise
                continue
            with log.lock:
                log.written.setdefault(path.removeprefix("/"), []).append(number)
            done += 1
        client.close()

    return count


def _say(hub: Hub, node: int, log: Log) -> None:
    """Post messages in the room."""
    writer = Writer(hub, node, log, threading.Event())
    done = 0
    while done < WRITES:
        done += writer.attempt("message", writer.post)
    writer.close()
