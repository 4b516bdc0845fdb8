"""Calls of tools with `"job": true`: the caller gets a task at once, and any worker of any machine runs the call.

The task is in the journal, so every node can show it, stream its changes and cancel it. A job whose worker died runs
again if its tool may be repeated, else its task ends as failed with that reason.
Source: SEP-2663 (tasks).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from patchbay.access.control import AccessControl
from patchbay.activation import CancelFlag, Events
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.recorder import Activity
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.coordination.leases import Lease
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.descriptors import Descriptor
from patchbay.errors import OverQuota, PatchbayError, Refused
from patchbay.events import Detach
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.jobs.records import Job, read_job
from patchbay.protocol.run_tool import Reference, ToolRun, find_tool, run_tool
from patchbay.protocol.tasks.records import Task
from patchbay.protocol.tasks.tasks import Tasks, TaskWork
from patchbay.protocol.translate import stamped, tool_result
from patchbay.settings import Settings
from patchbay.store import Subscription
from patchbay.topics import BUILT, ENDING
from patchbay.views.fold import Fold

log = logging.getLogger(__name__)

WAY = "job"
"""The entry point in the records of these calls."""

MAX_ATTEMPTS = 3
"""Attempts of a job whose workers died, of a tool that may be repeated."""

LEASE_SECONDS = 6.0
"""Life of the lease of the worker that looks for jobs of dead workers."""

UNKNOWN_SECONDS = 60.0
"""Seconds in which a worker that knows the tool of a job has to take it, after one that does not know it had it."""

IDLE_SECONDS = 30.0
"""Seconds between two looks whether a tool runs as a job; a change of servers is seen at once."""


class Jobs:
    """The jobs of one process: it defers them, and it runs those of all processes while it works."""

    def __init__(
        self, settings: Settings, catalogue: Catalogue, access: AccessControl, activity: Activity, tasks: Tasks
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._access = access
        self._activity = activity
        self._tasks = tasks
        self._store = catalogue.store
        self._lease = Lease(self._store, "jobs", LEASE_SECONDS)
        self._at_once = 0
        self._is_always = False
        self._loop = MailboxLoop(
            *("jobs", self._store.bus, [BUILT, ENDING], self._work, "this process runs no jobs for a moment"),
            size=64,
            retry_seconds=IDLE_SECONDS,
        )
        self._looked_at: Mapping[str, Server] = {}

    @property
    def are_shared(self) -> bool:
        """Whether other processes can run the jobs of this one."""
        return self._store.is_shared

    def defer(self, job: Job) -> Task:
        """Make the task of a job, and store the job; return the task. `job` has an empty task. Raises StoreAway."""
        task = self._tasks.queue(job.principal.id, job.endpoint)
        queue = self._store.jobs
        assert queue is not None, "a store of this machine alone has no jobs"
        try:
            queue.defer({**job.to_json(), "task": task.id})
        except BaseException:
            self._tasks.fail(task, "the job was not stored")
            raise
        return task

    def start(self, at_once: int, is_always: bool = False) -> None:
        """Run jobs from now on, at most `at_once` at a time, on a thread; unless `is_always`, from the first tool on
        that runs as a job.
        """
        if at_once and self.are_shared:
            self._at_once, self._is_always = at_once, is_always
            self._loop.start()

    def close(self) -> None:
        """Begin no further job, and wait for the running ones, which the end of the hub cancels."""
        self._loop.close(self._settings.drain)
        self._lease.release()

    def _work(self, mailbox: Subscription) -> None:
        """Run jobs until the end; without tools that run as jobs, wait for a change of the servers."""
        if self._is_always or self._has_jobs():
            self._is_always = True
            queue = self._store.jobs
            assert queue is not None
            queue.work(self.run, self.on_lost, self._lease.take, self._at_once, self._loop.ending)
            return
        mailbox.wait(IDLE_SECONDS)
        while mailbox.get(0) is not None:
            pass

    def _has_jobs(self) -> bool:
        """Whether a tool of a server that has changed since the last question runs as a job."""
        before, self._looked_at = self._looked_at, self._catalogue.served
        fresh = [server for name, server in self._looked_at.items() if before.get(name) is not server]
        return any(one.target.get("job") for server in fresh for one in server.tools.values())

    def on_lost(self, fields: Mapping[str, Any], attempts: int) -> bool:
        """Return whether a job whose worker died runs again; end its task if it does not."""
        job = read_job(fields)
        task = self._tasks.read(job.task)
        if task is None or task.ended is not None:
            return False
        if task.cancelling or not self._may_repeat(job):
            reason = "the worker that ran it ended; it is not repeated, because the tool has no idempotentHint"
        elif attempts >= MAX_ATTEMPTS:
            reason = f"the workers that ran it ended, in {attempts} attempts"
        else:
            return True
        self._tasks.fail(task, reason)
        return False

    def _may_repeat(self, job: Job) -> bool:
        try:
            self._knows_tool(job)
            return find_tool(self._catalogue.find(job.server), job.tool).is_repeatable
        except PatchbayError:
            return False

    def run(self, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Run a job to its end, which is in its task, and return None; or return its fields for another worker.

        That is so where this process does not know the tool, for UNKNOWN_SECONDS. Raises no error.
        """
        job = read_job(fields)
        task = self._tasks.read(job.task)
        if task is None or task.ended is not None:
            return None
        try:
            if not (task.cancelling or self._knows_tool(job)):
                now = self._store.now()
                unknown_since = job.unknown_since or now
                if now - unknown_since < UNKNOWN_SECONDS:
                    return replace(job, unknown_since=unknown_since).to_json()
            self._run(job, task)
        except PatchbayError as problem:
            self._tasks.fail(task, problem.message)
        except Exception:
            log.exception("the job of %s.%s failed", job.server, job.tool)
            self._tasks.fail(task, "internal error")
        return None

    def _knows_tool(self, job: Job) -> bool:
        """Whether this process has the tool of a job, also one that another process has added just now."""
        if self._has_tool(job):
            return True
        self._catalogue.catch_up()
        return self._has_tool(job)

    def _has_tool(self, job: Job) -> bool:
        server = self._catalogue.find_any(job.server)
        return server is not None and (job.tool in server.tools or not server.enabled)

    def _run(self, job: Job, task: Task) -> None:
        if not self._access.is_current(job.principal):
            raise Refused("the credentials of the caller were revoked before the job began")
        server = self._access.catalogue_for(job.principal).find(job.server)
        tool = find_tool(server, job.tool)
        wire = TransportInfo(job.endpoint, sender=job.principal, way=WAY)
        with self._activity.begin("tools/call", tool.name, server, wire, job.arguments) as record:
            run = self._begin_in_time(job, server, tool)
            run.call.meta = record.calls(tool, run.call)
            results: list[dict[str, Any]] = []

            def answer(fold: Fold) -> dict[str, Any]:
                revision = REVISIONS[job.revision]
                results.append(stamped(tool_result(run.result(), revision), server, revision))
                return results[-1]

            self._tasks.run_here(task, TaskWork(run.call, _recorded(run.events, record), run.fold, answer))
            record.end(Result(0, results[-1]) if results else None)

    def _begin_in_time(self, job: Job, server: Server, tool: Descriptor) -> ToolRun:
        """Begin the call; wait while the quotas of its principal, or the calls of its server, leave no place."""
        while True:
            try:
                return self._begin(job, server, tool)
            except OverQuota as problem:
                if self._loop.ending.wait(problem.retry_after):
                    raise

    def _begin(self, job: Job, server: Server, tool: Descriptor) -> ToolRun:
        principal = job.principal
        terms: dict[str, Any] = {"principal": principal.id, "sender": principal, "capabilities": job.capabilities}
        terms |= {"meta": job.meta, "cancelled": CancelFlag()}
        keep = partial(self._catalogue.contents.results.keep, principal=principal.id)
        reference = Reference(keep, self._settings.inline_limit)
        return run_tool(self._catalogue.hub, server, tool, job.arguments, reference, terms)


def _recorded(events: Events, record: CallRecording) -> Generator[Any, Any, None]:
    """Yield the events of a call without Detach, because it runs in the background already; record them."""
    with closing(events):
        reply = None
        while True:
            try:
                event = events.send(reply)
            except StopIteration:
                return
            record.saw(event)
            reply = None if isinstance(event, Detach) else (yield event)
