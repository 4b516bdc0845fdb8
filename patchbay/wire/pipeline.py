"""One way for every request over HTTP.

Theory of operation. A web server makes one Request, which never changes; an answer is one Reply.
1. Admit: a request takes a place among those that run (`WorkLimits`), and its age counts (`AtWork`); else 503.
2. Check: is the head unambiguous, and are Host and Origin those of the hub? The form of a refusal comes later.
3. Authenticate: find the sender. A hub that asks for a sign-in refuses here, also what is wrong with the head. Metadata
   comes before: a client without a sign-in reads there how to get one.
4. Route: the first endpoint that knows the path answers: MCP, the native interface, the pair of 2024-11-05,
   WebSockets, rooms, health; the pages answer the rest. A body that no endpoint reads is read first: it may be cut.
5. Finish: when the answer is known, a refusal for a quota is held back; when it is sent, the place and the bytes of the
   body are given back. An answer that is known later (`Reply.later`) leaves its thread until then.
An endpoint is a function of a Request to a Reply. An endpoint does not know which web server made the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from patchbay.errors import PatchbayError
from patchbay.events import Wait
from patchbay.jsonrpc import failure
from patchbay.settings import Settings
from patchbay.threads.server_shares import RestingMailbox
from patchbay.wire.replies.held_refusals import HeldRefusals
from patchbay.wire.replies.reply import CallBody, Later, Reply, json_reply
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.authentication import Authentication
from patchbay.wire.requests.bodies import METHODS_WITH_BODY, drop_body
from patchbay.wire.requests.body_budget import Bodies
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.head_checks import check_head
from patchbay.wire.requests.public_paths import find_checked_origin
from patchbay.wire.requests.request import Request
from patchbay.wire.requests.security import check_host_and_origin
from patchbay.wire.requests.work_limits import HEALTH, RequestPlace, WorkLimits

Endpoint = Callable[[Request], Reply]
Find = Callable[[Request], Endpoint | None]
"""Returns the endpoint of a request, None for a request that others answer."""


class Pipeline:
    """Answers the requests of one worker.

    `metadata` is found before the sender is, if the hub has it. The paths of `endpoints` answer a bad Host or Origin
    with an error of JSON-RPC; for those of `health` and `pages` the pages answer. Set `limits` and `at_work` before the
    first request; without them the web server limits the requests.
    """

    def __init__(
        self,
        settings: Settings,
        authentication: Authentication,
        endpoints: Sequence[Find],
        health: Find,
        pages: Endpoint,
        metadata: Find | None = None,
    ) -> None:
        self._settings = settings
        self._authentication = authentication
        self.endpoints = tuple(endpoints)
        self.health = health
        self.pages = pages
        self.metadata = metadata
        self.limits: WorkLimits | None = None
        self.at_work: AtWork | None = None
        self._refusals = HeldRefusals()
        self._bodies = Bodies(settings.bodies_limit, settings.threads)

    def __call__(self, request: Request) -> Reply:
        """Return the answer to a request. The caller sends it, and calls its `at_close` in the end.

        Waits a short time for a place. Raises what the pages raise.
        """
        limits, body = self.limits, request.body
        place = None if limits is None or request.path in HEALTH else limits.enter(request.address)
        if isinstance(place, Reply):
            return place
        body.limits, body.at_work = self._bodies, self.at_work
        thread = 0 if self.at_work is None else self.at_work.begin()
        reply = None
        try:
            reply, holder = self._answer(request)
        finally:
            if self.at_work is not None and (reply is None or reply.later is None):
                self.at_work.end(thread)
            if reply is None:
                self._leave(request, place)
        if reply.later is None:
            return self._finish(reply, request, place, holder)
        waiting = None if self.at_work is None else self.at_work.leave_thread(thread)
        later = self._finish_later(reply, request, place, holder, waiting)
        return Reply(later=later, leave=reply.leave)

    def _answer(self, request: Request) -> tuple[Reply, str | None]:
        """Return the answer, and the sender whose refusals are delayed; None for an answer that is never delayed."""
        fault, refused, headers = check_head(request), None, request.headers
        origin = find_checked_origin(headers.get("origin"), request.method, request.path, self._settings)
        try:
            check_host_and_origin(headers.get("host"), origin, self._settings)
        except PatchbayError as problem:
            refused = problem
        metadata = None if self.metadata is None else self.metadata(request)
        if metadata is not None:
            wrong = fault or refused
            return (metadata(request) if wrong is None else with_cors(request, _refuse(wrong))), None
        sender = self._authentication.find_sender(request, fault or refused)
        if isinstance(sender, Reply):
            return sender, None
        request = request.sent_by(sender)
        return self._route(request, fault, refused), sender.id if request.background is not None else None

    def _route(self, request: Request, fault: PatchbayError | None, refused: PatchbayError | None) -> Reply:
        if fault is None and request.method not in METHODS_WITH_BODY:
            try:
                drop_body(request, self._settings.body_limit)
            except PatchbayError as problem:
                fault = problem
        if fault is not None:
            return _refuse(fault)
        for find in self.endpoints:
            endpoint = find(request)
            if endpoint is not None:
                return endpoint(request) if refused is None else _refuse(refused)
        health = self.health(request) if refused is None else None
        return self.pages(request) if health is None else health(request)

    def _finish(self, reply: Reply, request: Request, place: RequestPlace | None, holder: str | None) -> Reply:
        """Return the answer as it is sent; what the request holds is given back now, or at the end of the answer."""
        if holder is not None and reply.headers:  # a refusal for a quota has a header
            reply = self._refusals.held(reply, holder)
        if request.body.held is not None:
            reply.call_at_close(request.body.release)
        if place is None:
            return reply
        if isinstance(reply.body, bytes) or (request.background is not None and not reply.holds_thread):
            place.release()
            return reply
        reply.call_at_close(place.release)
        if isinstance(reply.body, CallBody):
            reply.body.place = place
        return reply

    def _finish_later(
        self, reply: Reply, request: Request, place: RequestPlace | None, holder: str | None, waiting: object
    ) -> Later:
        """Return the answer to a request that waits without a thread, and without its place."""
        steps = reply.settle()
        try:
            while True:
                wait = next(steps)
                if wait is not None and place is not None:
                    wait = Wait(RestingMailbox(place, wait.mailbox), wait.seconds)
                yield wait
        except StopIteration as end:
            return self._finish(end.value, request, place, holder)
        except BaseException:
            steps.close()
            self._leave(request, place)
            raise
        finally:
            if self.at_work is not None:
                self.at_work.end(waiting)

    def _leave(self, request: Request, place: RequestPlace | None) -> None:
        """Give back what a request without an answer holds."""
        request.body.release()
        if place is not None:
            place.release()


def _refuse(problem: PatchbayError) -> Reply:
    return json_reply(failure(None, problem), problem.status)
