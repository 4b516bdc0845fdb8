"""Makes the calls of a script: by the one way to run a tool, as its caller, with a record of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchbay.access.approval_gate import ApprovalGate
from patchbay.access.approvals import AskedCall
from patchbay.access.principals import LOCAL
from patchbay.activation import Call, Events
from patchbay.activity.recorder import Activity
from patchbay.caller_accounts.pages import ELICITATION
from patchbay.catalogue.catalogue_hub import CatalogueHub
from patchbay.catalogue.servers.script_tools import NOT_INSTALLED, is_installed
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import MissingCapability, ToolFailed, WrongArguments
from patchbay.events import Ask, Failed, Question
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.linked_arguments import resolve_links
from patchbay.protocol.run_tool import check_arguments, owner_of, run_tool, terms_of_inner_call

WAY = "script"
"""The entry point in the records of these calls."""

ASKED = {"resultType": "input_required"}
"""The result in the record of a call that ended with a question of its tool."""

CountCall = Callable[[Any, str], float]
"""Counts a call of a sender on a server against its rates; returns the seconds that it waits. Raises OverQuota."""


def run_saved_script(server: Server, script: Any, arguments: dict[str, Any], call: Call) -> Events:
    """Return the events of a script that is a tool; the first one loads the interpreter. Raises ToolFailed."""
    if not is_installed():
        raise ToolFailed(NOT_INSTALLED)
    from patchbay.scripting.saved import run_saved

    return run_saved(server, script, arguments, call)


class RecordedCall:
    """One call of a tool for a script. `outer` is the call of the script, with the chain of this one."""

    def __init__(
        self,
        calls: ScriptCallMaker,
        hub: CatalogueHub,
        server: Server,
        descriptor: Descriptor,
        arguments: dict[str, Any],
        outer: Call,
    ) -> None:
        self.result: Mapping[str, Any] = {}
        """The whole result, after the last event."""
        self.answers: Mapping[str, Sequence[Any]] = {}
        """The answers to questions of the tool, by their digests, from earlier times that this call was made."""
        self.asked: Mapping[str, Question] = {}
        """The questions without an answer with which the call ended; it is to be made again with the answers."""
        self.account: tuple[str, str] | None = None
        """The account that the caller has to connect first, as in `Ask`."""
        self.line = self.number = 0
        """The line of the script, and the number of the call among those of its run."""
        self.written: dict[str, Any] | None = None
        """The arguments for the record, where they are others than those of the call: links in place of contents."""
        self._times: Counter[str] = Counter()
        """How often the tool has asked each question, by its digest."""
        self._calls = calls
        self._hub = hub
        self._server = server
        self._descriptor = descriptor
        self._arguments = arguments
        self._outer = outer

    def find_question(self) -> AskedCall | None:
        """Return the exact call, as `run_tool` will make it, if it needs an approval; None if it may run.

        It has the contents of links, so that people decide about those. None also for wrong arguments, which `events`
        refuses with a record.
        """
        outer, server, descriptor, hub = self._outer, self._server, self._descriptor, self._hub
        principal = outer.principal
        if not self._calls.gate.is_needed(server, descriptor, outer.sender):
            return None
        try:
            given = resolve_links(server, descriptor, self._arguments, hub.read_link, principal, hub.upload_limit)
            check_arguments(server, descriptor, given)
        except WrongArguments:
            return None
        return self._calls.gate.find_exact(server, descriptor, given, principal, outer.sender)

    def events(self) -> Events:
        """Yield the events of the call, and keep its result. Raises WrongArguments, OverQuota.

        A question of the tool that has no answer ends the call: `asked` has it then.
        """
        outer, server, descriptor = self._outer, self._server, self._descriptor
        wire = TransportInfo(server.name, sender=outer.sender if outer.sender is not None else LOCAL, way=WAY)
        written = self.written if self.written is not None else self._arguments
        with self._calls.activity.begin("tools/call", descriptor.name, server, wire, written) as record:
            record.script_run = outer.run  # also of a call that is refused before it begins
            record.script_place = (self.line, self.number, outer.run_depth)
            delay = self._calls.count(outer.sender, owner_of(server, descriptor))
            if delay:
                outer.cancelled.wait(delay)
            terms = terms_of_inner_call(outer) | {"approval": outer.approval}
            if outer.can_wait:
                terms |= {"capabilities": outer.capabilities, "can_wait": True, "asks_on_page": outer.asks_on_page}
            run = run_tool(self._hub, server, descriptor, self._arguments, None, terms, no_later_than=outer.deadline)
            run.call.meta = record.calls(descriptor, run.call)
            reply: Any = None
            refusal = ""
            events = run.events
            try:
                while True:
                    event = events.send(reply)
                    if isinstance(event, Failed) and isinstance(event.error, MissingCapability):
                        refusal = self._explain_refusal(event.error)
                    record.saw(event)
                    if not isinstance(event, Ask):
                        reply = yield event
                    elif (reply := self._find_answers(event)) is None:
                        run.call.is_repeated = True
                        record.end(Result(0, ASKED))
                        return
            except StopIteration:
                pass
            finally:
                events.close()
            self.result = run.result()
            if refusal:
                self.result = {"content": [{"type": "text", "text": refusal}], "isError": True}
            record.end(None if run.call.cancelled else Result(0, dict(self.result)))

    def _explain_refusal(self, problem: MissingCapability) -> str:
        """Say why a tool could not ask its caller; "" where a client with the capability can be asked in a script."""
        outer, descriptor = self._outer, self._descriptor
        if outer.can_wait and set(problem.required) == {ELICITATION}:
            return ""
        tool = f"{owner_of(self._server, descriptor)}.{descriptor.name}"
        return f"a tool cannot ask for this inside a script: {problem.names}. Call {tool} directly"

    def _find_answers(self, ask: Ask) -> Mapping[str, Any] | None:
        """Return the answers to all questions; None if some have none, which are in `asked` then.

        An answer counts for the question that a person saw, and for one time that the tool asks it.
        """
        from patchbay.scripting.suspended.question_digests import digest_of_question

        self.account = ask.account
        found, missing = {}, {}
        for key, question in ask.questions.items():
            digest = digest_of_question(key, question.method, question.params)
            known, time = self.answers.get(digest, ()), self._times[digest]
            self._times[digest] += 1
            if time < len(known):
                found[key] = known[time]
            else:
                missing[key] = question
        self.asked = missing
        return None if missing else found


class ScriptCallMaker:
    """Prepares the calls of scripts. `count` counts each of them for its sender.

    `gate` says which calls need an approval.
    """

    def __init__(self, activity: Activity, count: CountCall, gate: ApprovalGate) -> None:
        self.activity = activity
        self.count = count
        self.gate = gate

    def __call__(
        self, hub: CatalogueHub, server: Server, descriptor: Descriptor, arguments: dict[str, Any], outer: Call
    ) -> RecordedCall:
        """Return the call of a tool, which begins with its first event."""
        return RecordedCall(self, hub, server, descriptor, arguments, outer)
