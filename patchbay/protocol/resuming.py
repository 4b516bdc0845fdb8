"""Goes on with suspended runs of scripts once their calls are decided: in any process of all hubs on the store.

Every process hears of each decision, and one of them claims the run. A process that was killed loses its claim after a
few seconds; another one goes on. The modules of scripts are loaded when the first run was suspended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from patchbay.access.approval_gate import ApprovalGate
from patchbay.access.approvals import APPROVAL_SECONDS, WAITING, Approvals
from patchbay.access.control import AccessControl
from patchbay.activation import CancelFlag
from patchbay.activity.recorder import Activity
from patchbay.activity.script_runs import RESUMED
from patchbay.background import run_in_background
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.catalogue.servers.server import Server
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.coordination.process_liveness import LOST_SECONDS, Heartbeat
from patchbay.errors import PatchbayError, Refused, ToolFailed
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.run_tool import run_tool
from patchbay.store import Subscription
from patchbay.topics import APPROVALS, ENDING, SCRIPT_RUNS, UPSTREAM_SIGN_INS_CHANGED

if TYPE_CHECKING:
    from patchbay.scripting.suspended.run_records import RunHead, RunState
    from patchbay.scripting.suspended.suspended_runs import SuspendedRuns
    from patchbay.scripting.suspended.suspension import WaitingCall
    from patchbay.scripting.suspended.tool_questions import OpenQuestion

log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
"""Seconds between two looks of a process that knows no suspended run; a new one is told at once."""

MAX_RESUMED = 16
"""Runs that this process goes on with at the same time; other processes may claim the next ones meanwhile."""

MAX_LISTED_RUNS = 200
"""Runs that a list has, the newest."""

TOPICS = [APPROVALS, SCRIPT_RUNS, UPSTREAM_SIGN_INS_CHANGED, ENDING]
"""What lets a run go on, or ends the hub."""

END_SECONDS = 5.0
"""Seconds that the end of the hub waits for them."""


class ResumedScripts:
    """The suspended runs that this process goes on with. `key` is the secret key of the hub. Thread-safe.

    `find_account` returns the id of the account of a principal at the server with a key, "" without one. `left` returns
    the seconds that running calls still have: infinite until the hub stops.
    """

    def __init__(
        self,
        key: bytes,
        catalogue: Catalogue,
        access: AccessControl,
        activity: Activity,
        approvals: Approvals,
        gate: ApprovalGate,
        find_account: Callable[[str, str], str],
        left: Callable[[], float] = lambda: inf,
    ) -> None:
        self._key = key
        self._find_account = find_account
        self._catalogue = catalogue
        self._access = access
        self._activity = activity
        self._approvals = approvals
        self._gate = gate
        self._store = catalogue.store
        self._heartbeat = Heartbeat(self._store)
        self._left = left
        self._lock = threading.Lock()
        self._has_ended = threading.Condition(self._lock)
        self._running: dict[str, CancelFlag] = {}
        self._has_open = True
        self._loop = MailboxLoop(
            *("suspended scripts", self._store.bus, TOPICS, self._round),
            "suspended scripts wait for a moment",
        )

    @cached_property
    def runs(self) -> SuspendedRuns:
        """The suspended runs of all processes."""
        from patchbay.scripting.suspended.suspended_runs import SuspendedRuns

        return SuspendedRuns(self._store, self._key, self._approvals, self._find_account)

    @property
    def wait_seconds(self) -> float:
        """Seconds that a client waits for a decision that is not asked itself."""
        return self._gate.wait_seconds

    @property
    def process(self) -> str:
        """The id of this process in its claims."""
        return self._heartbeat.liveness.process

    def describe(self, id: str) -> tuple[str, list[dict[str, Any]]]:
        """Return the state of a run that was suspended, "" for any other, and its calls that wait for a person.

        Each has its name, its line, the Unix time at which it asked, and what it `needs`: an approval, an answer, or an
        account of its caller.
        """
        head = self.runs.heads.get(id) if self._store.journal.last(SCRIPT_RUNS) else None
        if head is None:
            return "", []
        state = self.runs.read(id)
        if state is not None and state.head is not None and state.outcome is not None:
            head = state.head  # it has ended since
        asked = {one.id: one for one in self._approvals.find_question(head.question)}
        now, lacking, rows = self._approvals.now(), self.runs.lacking_accounts(head), []
        for one in self._waiting_calls(state):
            if one.questions:
                needs = "account" if one.account is not None else "answer"
                if one.account in lacking if one.account is not None else head.waits_for_answers(now):
                    at = head.until - APPROVAL_SECONDS
                    rows.append({"name": one.title, "line": one.line, "at": at, "needs": needs})
            elif (found := asked.get(one.approval)) is not None and found.state_at(now) == WAITING:
                name = f"{found.call.server}.{found.call.tool}"
                rows.append({"name": name, "line": one.line, "at": found.made, "needs": "approval"})
        return self.runs.state_of(head), rows

    def list_runs(self, principal: str | None) -> list[dict[str, Any]]:
        """Return the runs that were suspended in the last day, newest first: those of a principal, or all for None.

        Each has its `id`, `state`, `server` ("" for all servers), `tool`, the id of its `caller`, and the Unix times at
        which it `began`, `ended` (None for one that has not), and `until` which it waits (None for one that does not).
        """
        if not self._store.journal.last(SCRIPT_RUNS):
            return []
        from patchbay.scripting.suspended.run_records import SUSPENDED

        heads = [one for one in self.runs.heads.all() if principal in (None, one.principal)][:MAX_LISTED_RUNS]
        return [
            {
                "id": one.id,
                "state": state,
                "server": one.server,
                "tool": one.tool,
                "caller": one.principal,
                "began": one.began,
                "ended": one.ended or None,
                "until": one.until if state == SUSPENDED else None,
            }
            for one, state in zip(heads, self.runs.states_of(heads), strict=True)
        ]

    def _waiting_calls(self, state: RunState | None) -> Sequence[WaitingCall]:
        """Return the calls with which a run was suspended; none of one that has ended, or whose record was changed."""
        if state is None or state.outcome is not None:
            return ()
        try:
            return self.runs.seals.open(state)[0].waiting
        except ToolFailed:
            return ()  # its page is there all the same, so that the run can be cancelled

    def find_owner(self, id: str) -> str:
        """Return the id of the principal whose call began a run that was suspended; "" for any other run."""
        head = self.runs.heads.get(id) if self._store.journal.last(SCRIPT_RUNS) else None
        return head.principal if head is not None else ""

    def describe_end(self, id: str, is_whole: bool, is_operator: bool = False) -> dict[str, Any] | None:
        """Return how a run ended that was suspended before, as the fields of an Outcome; None for any other run.

        Without `is_whole` that is None too, except for a run that was cancelled: its failure alone, without its calls.
        What a saved script printed and its value are for operators: the toolset may hide parts of them from callers.
        Any other reader gets a `note` in their place.
        """
        from patchbay.scripting.suspended.run_records import CANCELLED, Outcome

        head = self.runs.heads.get(id) if self._store.journal.last(SCRIPT_RUNS) else None
        state = self.runs.read(id) if head is not None and head.ended else None
        if head is None or state is None or not (is_whole or head.state == CANCELLED):
            return None
        try:
            found = self.runs.seals.open_outcome(state)
        except ToolFailed as problem:  # its record was changed
            found = Outcome("", None, [], problem.message)
        if not is_whole:
            return asdict(Outcome("", None, [], found.failure.partition("\n")[0]))
        if head.tool == RUN or is_operator:
            return asdict(found)
        return {"calls": found.calls, "failure": found.failure, "note": self._describe_value(head)}

    def _describe_value(self, head: RunHead) -> str:
        """Say how the caller of a saved script gets what it returned and printed."""
        if self.runs.is_kept_for_caller(head):
            return f"Call {head.tool} with the same arguments again to get its value."
        return f"The value of {head.tool} is in the answer of the call alone, and is no longer kept for its caller."

    def find_questions(self, id: str) -> tuple[dict[str, OpenQuestion], float]:
        """Return the questions of tools that a run waits for, by their keys, and the Unix time until which it waits.

        A run whose caller's credentials have ended asks nothing any more: another caller with the same name, such as a
        new key, did not begin it. Raises ToolFailed for a run whose record was changed.
        """
        state = self.runs.read(id) if self._store.journal.last(SCRIPT_RUNS) else None
        if state is None or state.head is None or not state.head.waits_for_answers(self._approvals.now()):
            return {}, 0.0
        from patchbay.scripting.suspended.tool_questions import open_questions

        suspension = self.runs.seals.open(state)[0]
        if not self._access.is_current(suspension.sender):
            return {}, 0.0
        return open_questions(suspension, self.runs.seals.open_answers(state)), state.head.until

    def has_caller(self, head: RunHead) -> bool:
        """Whether the credentials with which a run began are still valid; True for a run that has no snapshot now."""
        try:
            return self._access.is_current(self.runs.seals.open(self._state(head))[0].sender)
        except ToolFailed:
            return True

    def answer(self, id: str, key: str, value: Mapping[str, Any]) -> bool:
        """Store the answer of the caller of a run to the question with this key; False if it is not open any more.

        Raises ToolFailed for too many bytes, and for a run whose record was changed.
        """
        head, found = self.runs.heads.get(id), self.find_questions(id)[0].get(key)
        return head is not None and found is not None and self.runs.answer(head, found.answer(value))

    def cancel(self, id: str, by: str) -> bool:
        """Cancel a run that was suspended and has not ended; return False for any other. `by` cancels it."""
        if not self._store.journal.last(SCRIPT_RUNS):
            return False
        from patchbay.scripting.cancelling import cancel_run

        return cancel_run(self.runs, id, by)

    def start(self) -> None:
        """Go on with runs from now on, on threads. A read-only hub does not."""
        if not self._catalogue.readonly:
            self._loop.start()

    def begin_end(self) -> None:
        """Begin no further run: the hub stops. Those that go on here may end. Waits for nothing."""
        self._loop.stop()

    def close(self) -> None:
        """Begin no further run, and let those that go on here end in the time that the hub has left.

        Then they are ended: another process, or the next start, goes on with them.
        """
        self._loop.stop()
        with self._lock:
            if (left := self._left()) < inf:
                self._has_ended.wait_for(lambda: not self._running, left)
            for flag in self._running.values():
                flag.set("the hub is stopping")
        self._loop.join(END_SECONDS)

    def resume(self, id: str) -> None:
        """Go on with a run on a thread of its own, unless this process does already, or has no room for it."""
        with self._lock:
            if id in self._running or len(self._running) >= MAX_RESUMED or self._loop.ending.is_set():
                return
            self._running[id] = CancelFlag()
        try:
            run_in_background(f"script {id}", self._resume, id)
        except RuntimeError:
            self._note_ended(id)

    def _note_ended(self, id: str) -> None:
        with self._lock:
            del self._running[id]
            self._has_ended.notify_all()

    def _stop(self, id: str) -> None:
        """End the calls of a run that goes on here, and was cancelled."""
        with self._lock:
            if id in self._running:
                self._running[id].set("the run was cancelled")

    def _round(self, mailbox: Subscription) -> None:
        """Go on with what is decided, and wait for the next decision, or for the end of the claim of a lost process.

        Then only the runs that the messages name are looked at; without a message, or when one was lost, all are.
        """
        self._has_open = self._look(None)
        dropped = mailbox.dropped
        while (message := mailbox.get(LOST_SECONDS if self._has_open else IDLE_SECONDS)) is not None:
            named = {_run_of(*message)}
            while (message := mailbox.get(0)) is not None:
                named.add(_run_of(*message))
            if mailbox.dropped != dropped or "" in named or self._loop.ending.is_set():
                return
            self._has_open |= self._look(named)

    def _look(self, named: Collection[str] | None) -> bool:
        """Go on with those of some runs, or of all, whose calls are decided; return whether some have not ended."""
        if not self._store.journal.last(SCRIPT_RUNS):
            return False
        from patchbay.scripting.suspended.run_records import CANCELLED, DECIDED, EXPIRED

        heads = self.runs.heads.all() if named is None else [self.runs.heads.get(id) for id in named]
        for one in heads:
            if one is not None and one.state == CANCELLED:
                self._stop(one.id)
        known = [one for one in heads if one is not None and not one.ended]
        states = self.runs.states_of(known)
        for one, state in zip(known, states, strict=True):
            if state == DECIDED:
                self.resume(one.id)
        return any(state != EXPIRED for state in states)

    def _resume(self, id: str) -> None:
        """Go on with a run to its end, or until it waits again. Raises no error of the hub."""
        try:
            self._heartbeat.begin()
            try:
                head = self.runs.heads.get(id)
                if head is not None:
                    self._go_on(head)
            finally:
                self._heartbeat.end()
        except PatchbayError as problem:
            log.info("the run %s of a script did not go on here: %s", id, problem.message)
        finally:
            self._note_ended(id)

    def _go_on(self, head: RunHead) -> None:
        from patchbay.scripting.front import script_server

        try:
            suspension, _ = self.runs.seals.open(self._state(head))
            sender = suspension.sender
            if sender.id != head.principal or not self._access.is_current(sender):
                raise Refused("the credentials of the caller of this script are no longer valid: the run has ended")
            server = self._find(head, sender)
        except PatchbayError as problem:
            self._end(head, problem.message)
            return
        front = script_server(server)
        tool, arguments = front.tools[RUN], {"code": suspension.code, "inputs": suspension.inputs}
        wire = TransportInfo(head.server, sender=sender, way=RESUMED)
        terms: dict[str, Any] = {"principal": sender.id, "sender": sender, "cancelled": self._running[head.id]}
        with self._activity.begin("tools/call", RUN, front, wire, arguments) as record:
            run = run_tool(self._catalogue.hub, front, tool, arguments, None, {**terms, "resumes": head.id})
            run.call.meta = record.calls(tool, run.call)
            for event in run.events:
                record.saw(event)
            record.end(Result(0, run.result()))

    def _state(self, head: RunHead) -> Any:
        state = self.runs.read(head.id)
        if state is None:
            raise ToolFailed("its record is no longer there")
        return state

    def _find(self, head: RunHead, sender: Any) -> Server:
        """Return the server of a run as its caller may see it now. Raises UnknownServer, ToolFailed."""
        self._catalogue.catch_up()
        seen = self._access.catalogue_for(sender)
        server: Server = seen.find(head.server) if head.server else seen.aggregate()
        is_there = server.has_scripts if head.tool == RUN else head.tool in server.tools
        if not is_there:
            raise ToolFailed(f"{head.server or '/mcp'} has no tool {head.tool} any more, which began this script")
        return server

    def _end(self, head: RunHead, failure: str) -> None:
        """End a run that cannot go on."""
        from patchbay.scripting.suspended.run_records import Outcome

        claim = self.runs.claim(head.id, self.process)
        if claim is not None:
            claim.end(Outcome("", None, [], failure))


def _run_of(topic: str, message: bytes) -> str:
    """Return the id of the run that a message names; "" for one that is not about one run."""
    return message.decode("ascii", "replace").partition("-")[0] if topic in (APPROVALS, SCRIPT_RUNS) else ""
