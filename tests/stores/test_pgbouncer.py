"""What the store in PostgreSQL has to stand behind a pooler of transactions, beside the tests of all stores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from patchbay.stores.postgresql import PostgresqlStore
from tests.bouncers import Bouncer
from tests.stores.test_postgresql import send_to_and_fro, stored, write_all
from tests.waiting import BOUND


def test_messages_cross_processes_while_the_connection_that_listens_has_its_own_address(
    pooled_database: tuple[str, str],
) -> None:
    """35.9"""
    pooled, direct = pooled_database
    send_to_and_fro(pooled, direct)


def test_messages_also_cross_processes_that_listen_through_the_pooler(pooled_database: tuple[str, str]) -> None:
    """35.9: hints are lost there, and the rows are read once a second."""
    pooled, _ = pooled_database
    send_to_and_fro(pooled)


def test_every_write_is_there_once_when_the_pooler_is_killed_and_started_again(
    pooled_database: tuple[str, str], bouncer: Bouncer
) -> None:
    """35.6: in the middle of the writes of many threads, each of which has a connection to the pooler."""
    pooled, direct = pooled_database
    progress = threading.Semaphore(0)
    with closing(PostgresqlStore(pooled, direct)) as store, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_all, store, progress)
        for _ in range(3):
            for _ in range(20):
                assert progress.acquire(timeout=BOUND)
            bouncer.stop()
            bouncer.start()
        acknowledged = writing.result()
        assert stored(store) == (acknowledged, acknowledged)
