"""Lets a call run only after its approval, where its tool or the grant of its caller asks for one.

The caller's client is asked, by elicitation; for a client that cannot be asked, the call waits for a decision on the
page /approvals. The key of the question is the id of the approval, which a client cannot know before it is asked.
Source: MCP specification, client/elicitation; server/tools (human in the loop).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from patchbay.access.approval_questions import ask_client, question_key, read_answer
from patchbay.access.approvals import (
    APPROVAL_SECONDS,
    APPROVED,
    REFUSED,
    WAITING,
    Approval,
    Approvals,
    AskedCall,
    CallDigest,
    UnknownApproval,
    canonical_arguments,
)
from patchbay.access.principals import Principal
from patchbay.activation import PAUSE, Call, Events, pauses
from patchbay.catalogue.servers.server import Server
from patchbay.cid import cid_of
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Event, Failed
from patchbay.store import Bus
from patchbay.topics import APPROVALS

WAIT_SECONDS = 20.0
"""Seconds that a call waits for a decision on the page; most clients wait longer for a result."""

AsksForApproval = Callable[[Principal, str, str], bool]
"""Whether the grants of a principal ask for an approval of an entry of a server, if it may destroy something."""


class ApprovalGate:
    """Asks for the approvals of calls. `wait_seconds` is for clients that cannot be asked."""

    def __init__(
        self, approvals: Approvals, bus: Bus, asks: AsksForApproval, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._approvals = approvals
        self._bus = bus
        self._asks = asks
        self.wait_seconds = wait_seconds

    def __call__(self, server: Server, descriptor: Descriptor, call: Call, events: Events) -> Events:
        """Return the events of a call, which begin only after its approval if it needs one.

        A call that names an approval (`Call.approval`) uses that one, and asks for none. A script that was suspended
        was approved when it began.
        """
        if call.resumes:
            return events
        asked = self.find_exact(server, descriptor, call.arguments, call.principal, call.sender)
        return events if asked is None else self._gated(asked, call, events)

    def find_exact(
        self, server: Server, descriptor: Descriptor, arguments: Mapping[str, Any], principal: str, sender: Any
    ) -> AskedCall | None:
        """Return the exact call that needs an approval; None for a call that needs none."""
        if not self.is_needed(server, descriptor, sender):
            return None
        given = canonical_arguments(arguments)
        exact = CallDigest(
            *(principal, server.name, server.version, descriptor.name, descriptor.digest, cid_of(given)),
            descriptor.origins_json,
        )
        return AskedCall(exact, given)

    def is_needed(self, server: Server, descriptor: Descriptor, sender: Any) -> bool:
        """Return whether the calls of a tool by this sender need an approval."""
        if descriptor.target.get("approve"):
            return True
        if not isinstance(sender, Principal) or not descriptor.is_destructive:
            return False
        if self._asks(sender, server.name, descriptor.name):
            return True
        origins = descriptor.origins
        return bool(origins) and any(self._asks(sender, one.server, one.name) for one in origins)

    def _gated(self, asked: AskedCall, call: Call, events: Events) -> Events:
        try:
            if not call.approval:
                approval = self._approvals.request(asked.exact, asked.arguments)
                if approval.state != APPROVED:
                    yield from self._ask(approval, asked, call) if can_ask(call) else self._wait(approval, call)
                call.approval = approval.id
            self._approvals.use(call.approval, asked.exact)
        except ToolFailed as problem:
            yield Failed(problem.message)
            return
        try:
            yield from events
        except GeneratorExit:
            if call.is_repeated:
                self._approvals.give_back(call.approval)
            raise

    def _ask(self, approval: Approval, asked: AskedCall, call: Call) -> Generator[Event, Any, None]:
        """Ask the caller's client. Raises ToolFailed when it does not approve."""
        key = question_key(approval.id)
        answers = yield Ask({key: ask_client([asked])})
        (is_approved,) = read_answer(answers.get(key) if isinstance(answers, Mapping) else None, [asked])
        try:
            self._approvals.decide(approval.id, is_approved, call.principal)
        except UnknownApproval as problem:
            # It was decided on the page, or used by an equal call, while the client was asked.
            if not is_approved or _state(self._approvals, approval) != APPROVED:
                raise ToolFailed(f"{_tool_name(approval)} did not run: {problem.message}") from problem
        if not is_approved:
            raise ToolFailed(f"{_tool_name(approval)} did not run: its approval was refused by the user")

    def _wait(self, approval: Approval, call: Call) -> Generator[Event, Any, None]:
        """Wait for a decision on the page. Raises ToolFailed without an approval. The deadline moves with the wait."""
        begun_left, waited = call.left(), 0.0
        with self._bus.subscribe([APPROVALS]) as mailbox:
            for seconds in pauses(call):
                state = _state(self._approvals, approval)
                if state == APPROVED:
                    break
                if state != WAITING:
                    raise ToolFailed(f"{_tool_name(approval)} did not run: its approval is {state}")
                if (left := min(self.wait_seconds, begun_left - 1) - waited) <= 0:
                    raise ToolFailed(_where_to_approve(approval))
                before = call.left()
                mailbox.get(min(seconds, left))
                waited += before - call.left()
                yield PAUSE
                if call.cancelled:
                    raise ToolFailed(f"cancelled: {call.cancelled.reason}")
        if len(call.chain) <= 1:
            call.deadline += waited


def _state(approvals: Approvals, approval: Approval) -> str:
    found = approvals.find(approval.id)
    return found.state if found is not None else REFUSED


def can_ask(call: Call) -> bool:
    """Whether the caller's client shows forms (`elicitation` without a mode, or with `form`).

    A tool that another tool calls may not ask.
    """
    declared = call.capabilities.get("elicitation")
    return len(call.chain) <= 1 and isinstance(declared, Mapping) and (not declared or "form" in declared)


def _where_to_approve(approval: Approval) -> str:
    minutes = round(APPROVAL_SECONDS / 60)
    return (
        f"{_tool_name(approval)} needs an approval, and there is no decision yet. An administrator can approve this"
        f" call on the page /approvals of this hub within {minutes} minutes (id {approval.id}); then send the same call"
        " again"
    )


def _tool_name(approval: Approval) -> str:
    return f"{approval.call.server}.{approval.call.tool}"
