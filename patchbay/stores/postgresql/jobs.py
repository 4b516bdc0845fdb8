"""Jobs in PostgreSQL: calls that any worker of any machine runs. Procrastinate has the queue, its locks and heartbeats.

A job is its fields, a JSON object. It is deleted when it has run. One whose worker died is given to `on_lost`, which
says whether it runs again.
Source: https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import procrastinate
from procrastinate import exceptions
from procrastinate.jobs import Status
from procrastinate.schema import SchemaManager, migrations_path
from procrastinate.types import TimeDeltaParams

from patchbay.errors import StoreAway
from patchbay.stores.postgresql.address import parse_address, set_limits
from patchbay.stores.postgresql.database import Connection

log = logging.getLogger(__name__)

TASK = "patchbay.call"
"""The name of our jobs in the queue, which other programs may use too."""

HEARTBEAT_SECONDS = 2.0
"""Seconds between two signs of life of a worker."""

LOST_SECONDS = 8.0
"""Seconds without a sign of life after which a worker counts as dead."""

POLL_SECONDS = 5.0
"""Seconds between two looks for jobs; a new job wakes the workers at once."""

CONNECTION_SECONDS = 5.0
"""Seconds to wait for a connection."""

AGAIN_SECONDS = 1
"""Seconds until a job that a worker gave back is there for all workers again."""

PAUSE_SECONDS = 1.0
"""Seconds until a worker begins again after a failure of the database."""


Run = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Runs a job to its end and returns None, or returns the fields with which another worker may take it."""

OnLost = Callable[[Mapping[str, Any], int], bool]
"""Gets the fields of a job whose worker died, and the number of its attempts; returns whether it runs again."""


class PostgresqlJobs:
    """The jobs of one database. `address` must not lead through a pooler of transactions: a worker listens."""

    def __init__(self, address: str) -> None:
        self._conninfo = parse_address(address)
        # It writes several lines about each job, which the records of calls have too.
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        self._lock = threading.Lock()
        self._deferring: procrastinate.App | None = None

    def defer(self, fields: Mapping[str, Any], after: int = 0) -> None:
        """Store a job, which any worker may begin `after` seconds from now. Raises StoreAway."""
        try:
            when: TimeDeltaParams | None = {"seconds": after} if after else None
            self._open_app().configure_task(TASK, schedule_in=when).defer(fields=dict(fields))
        except exceptions.ConnectorException as problem:
            raise StoreAway(f"the job is not stored: {problem.__cause__ or problem}") from problem

    def close(self) -> None:
        """Close the connection for new jobs."""
        with self._lock:
            if self._deferring is not None:
                self._deferring.close()
                self._deferring = None

    def work(
        self,
        run: Run,
        on_lost: OnLost,
        may_look: Callable[[], bool],
        at_once: int,
        ending: threading.Event,
    ) -> None:
        """Run jobs, at most `at_once` at a time, until `ending`; then return when the running ones have ended.

        `run` runs one job, or gives it back for another worker. `may_look` says whether this worker looks for jobs of
        dead workers now, which one does for all; `on_lost` gets each of them and returns whether it runs again. After a
        failure of the database it goes on.
        """
        while not ending.is_set():
            try:
                asyncio.run(self._work(run, on_lost, may_look, at_once, ending))
            except exceptions.ConnectorException as problem:
                log.warning("jobs wait for the database: %s", problem.__cause__ or problem)
            ending.wait(PAUSE_SECONDS)

    def _open_app(self) -> procrastinate.App:
        with self._lock:
            if self._deferring is None:
                connector = procrastinate.SyncPsycopgConnector(
                    conninfo=self._conninfo,
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    configure=set_limits,
                    min_size=0,
                    max_size=2,
                    timeout=CONNECTION_SECONDS,
                )
                self._deferring = procrastinate.App(connector=connector)
                self._deferring.open()
            return self._deferring

    async def _work(
        self,
        run: Run,
        on_lost: OnLost,
        may_look: Callable[[], bool],
        at_once: int,
        ending: threading.Event,
    ) -> None:
        # Each job takes a thread; the looks for lost jobs, one more.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(at_once + 1, "job"))
        connector = procrastinate.PsycopgConnector(
            conninfo=self._conninfo, min_size=1, max_size=3, timeout=CONNECTION_SECONDS
        )
        app = procrastinate.App(connector=connector)

        # A job that could not be stored again stays in the queue.
        @app.task(name=TASK, retry=procrastinate.RetryStrategy(wait=AGAIN_SECONDS, retry_exceptions=[StoreAway]))
        def call(fields: dict[str, Any]) -> None:
            if (given_back := run(fields)) is not None:
                self.defer(given_back, AGAIN_SECONDS)

        async with app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(
                    concurrency=at_once,
                    fetch_job_polling_interval=POLL_SECONDS,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=LOST_SECONDS * 10,
                    install_signal_handlers=False,
                    delete_jobs="always",
                )
            )
            try:
                while not (ending.is_set() or worker.done()):
                    if await asyncio.to_thread(may_look):
                        await self._look_for_lost(app, on_lost)
                    await asyncio.wait([worker], timeout=HEARTBEAT_SECONDS)
            finally:
                # Procrastinate waits for the running jobs when its task is cancelled once.
                worker.cancel()
                await asyncio.wait([worker])
            if not worker.cancelled() and (problem := worker.exception()) is not None:
                raise problem

    async def _look_for_lost(self, app: procrastinate.App, on_lost: OnLost) -> None:
        """Let the jobs of dead workers run again, or end them."""
        manager = app.job_manager
        for job in await manager.get_stalled_jobs(task_name=TASK, seconds_since_heartbeat=LOST_SECONDS):
            fields = job.task_kwargs["fields"]
            assert isinstance(fields, dict), "our jobs have their fields as an object"
            if await asyncio.to_thread(on_lost, fields, job.attempts + 1):
                await manager.retry_job(job)
            else:
                await manager.finish_job(job, Status.FAILED, delete_job=True)


def prepare_jobs(connection: Connection) -> None:
    """Create the tables of jobs, or bring them up to date with the installed Procrastinate, in the transaction."""
    files = sorted(migrations_path.glob("*.sql"))
    row = connection.execute("SELECT newest FROM jobs_schema").fetchone()
    if row is None:
        connection.execute(SchemaManager.get_schema().encode())
        connection.execute("INSERT INTO jobs_schema VALUES (%s)", (files[-1].name,))
        return
    for file in files:
        if file.name > row[0]:
            connection.execute(file.read_bytes())
            connection.execute("UPDATE jobs_schema SET newest = %s", (file.name,))
