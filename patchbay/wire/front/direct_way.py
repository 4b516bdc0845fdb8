"""The direct way: takes plain MCP requests from the front to the dispatcher, without a WSGI environ.

A request is plain if it is a POST to `/mcp` or `/mcp/<server>`, has a short JSON body that arrived as a whole, and only
headers that most MCP clients send (`PLAIN` and `Mcp-*`), each of them once. A request that a check of the head or of
the sender would refuse, or that needs a check with a WSGI environ, takes the WSGI application, so there is one place
for each error. Both ways share the code of the wait for a thread, and all code from the JSON of the body on.
Source: MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from patchbay.access.authentication import Credentials
from patchbay.access.principals import Principal
from patchbay.access.tokens.audiences import get_origin
from patchbay.errors import PatchbayError
from patchbay.events import Wait
from patchbay.hosts.path_prefix import strip_prefix
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.server_shares import RestingMailbox
from patchbay.text_cache import cached_by_text
from patchbay.wire.endpoints.mcp import PATH, McpOverHttp
from patchbay.wire.front.held_refusals import HeldRefusals
from patchbay.wire.front.work_limits import WorkLimits, WorkPlace
from patchbay.wire.replies.accept import JSON, accepted_forms
from patchbay.wire.replies.reply import CallBody, Later, Reply
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.authentication import Authentication, plain_credentials
from patchbay.wire.requests.bodies import media_type
from patchbay.wire.requests.rsgi import Headers, Scope, address
from patchbay.wire.requests.security import check_host_and_origin

PLAIN = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "authorization", "cache-control", "connection"),
        *("content-length", "content-type", "host", "keep-alive", "pragma", "priority", "sec-fetch-mode"),
        *("baggage", "traceparent", "tracestate", "user-agent"),
    )
)
"""Headers of plain requests, beside `Mcp-*`. None of them decides something that only the WSGI application checks."""


class DirectWay:
    """Answers the plain MCP requests of one worker.

    `limits` and `at_work` count these requests together with those of the WSGI application; `refusals` holds back the
    answers that refuse a call for a quota.
    """

    def __init__(
        self,
        mcp: McpOverHttp,
        authentication: Authentication,
        refusals: HeldRefusals,
        limits: WorkLimits,
        at_work: AtWork,
    ) -> None:
        self._mcp = mcp
        self._settings = mcp.settings
        self._authentication = authentication
        self._refusals = refusals
        self._limits = limits
        self._at_work = at_work
        self._prefix = prefix = mcp.settings.path_prefix
        self._find_endpoint: Callable[[str], str | None] = plain_endpoint
        self._find_base_url: Callable[[str], str] = get_origin
        if prefix:
            self._find_endpoint = cached_by_text(1024)(partial(_endpoint_below, prefix))
            self._find_base_url = partial(_find_base_url, prefix)

    def reply(self, scope: Scope, headers: Headers, body: bytes) -> Reply | None:
        """Return the answer to a request with this body; None if the WSGI application has to answer it.

        Waits a short time for a thread, as all requests do.
        """
        endpoint = self._find_endpoint(scope.path) if scope.method == "POST" and scope.authority is None else None
        if endpoint is None:
            return None
        sender_address = address(scope.client)[0]
        wire = self._read_head(endpoint, scope, sender_address, headers, len(body))
        if wire is None:
            return None
        place = self._limits.enter(sender_address)
        if isinstance(place, Reply):
            return place
        reply = None
        begun = self._at_work.begin()
        try:
            reply = self._mcp.reply_to_post(body, wire)
        finally:
            if reply is None or reply.later is None:
                self._at_work.end(begun)
            if reply is None:
                self._limits.leave(place)
        if reply.later is not None:
            later = self._finish_later(reply, wire.principal, place, self._at_work.leave_thread(begun))
            return Reply(later=later, leave=reply.leave)
        return self._finish(reply, wire.principal, place)

    def _finish(self, reply: Reply, sender: str, place: WorkPlace) -> Reply:
        """Return the answer to a request of a sender, and give back its place now or at the end of a stream."""
        reply = self._refusals.held(reply, sender)
        if not reply.holds_thread:
            self._limits.leave(place)
            return reply
        reply.call_at_close(lambda: self._limits.leave(place))
        if isinstance(reply.body, CallBody):
            reply.body.place = place
        return reply

    def _finish_later(self, reply: Reply, sender: str, place: WorkPlace, request: object) -> Later:
        """Return the answer to a request that waits without a thread, and without its place."""
        steps = reply.settle()
        try:
            while True:
                wait = next(steps)
                yield None if wait is None else Wait(RestingMailbox(place, wait.mailbox), wait.seconds)
        except StopIteration as end:
            return self._finish(end.value, sender, place)
        except BaseException:
            steps.close()
            self._limits.leave(place)
            raise
        finally:
            self._at_work.end(request)

    def _read_head(
        self, endpoint: str, scope: Scope, sender_address: str, headers: Headers, size: int
    ) -> TransportInfo | None:
        """Return what the head of a plain request with a body of `size` bytes says; None if it is not plain."""
        head: dict[str, str] = {}
        mcp: dict[str, str] = {}
        pairs = headers.items()
        for name, value in pairs:
            if name in PLAIN:
                head[name] = value
            elif name.startswith("mcp-") and "_" not in name:
                mcp[name] = value.strip(" \t")
            else:
                return None
        # The pairs have each value of a header that is sent twice; they lack values that are not ASCII.
        if not len(head) + len(mcp) == len(pairs) == len(headers):
            return None
        if head.get("content-length") != str(size) or size > self._settings.body_limit:
            return None
        host = head.get("host", "")
        json, stream = accepted_forms(head.get("accept", ""))
        if not (json or stream) or media_type(head.get("content-type", "")) != JSON or not self._is_own(host):
            return None
        find_base_url = partial(self._find_base_url, f"{scope.scheme}://{host}")
        sender = self._find_sender(scope, sender_address, head, find_base_url)
        if sender is None:
            return None
        authorization = head.get("authorization")
        if authorization is None:
            return TransportInfo(*(endpoint, mcp, sender, stream), strict=not endpoint, find_base_url=find_base_url)
        is_operator = partial(self._mcp.is_plain_operator, sender, sender_address, authorization)
        return TransportInfo(
            *(endpoint, mcp, sender, stream),
            strict=not endpoint,
            find_base_url=find_base_url,
            shows_raised=is_operator,
        )

    def _is_own(self, host: str) -> bool:
        """Whether the hub answers for this host."""
        try:
            check_host_and_origin(host, None, self._settings)
        except PatchbayError:
            return False
        return "," not in host

    def _find_sender(
        self, scope: Scope, sender_address: str, head: dict[str, str], find_base_url: Callable[[], str]
    ) -> Principal | None:
        """Return the principal of a request whose proof needs no environ; None if the middleware has to find it."""

        def make_credentials() -> Credentials:
            path = strip_prefix(self._prefix, scope.path) if self._prefix else scope.path
            return plain_credentials(find_base_url(), path, head, sender_address, self._prefix)

        try:
            return self._authentication.find_plain_sender(sender_address, head.get("authorization"), make_credentials)
        except PatchbayError:
            return None


def _find_base_url(prefix: str, url: str) -> str:
    return get_origin(url) + prefix


def _endpoint_below(prefix: str, path: str) -> str | None:
    """Return what `plain_endpoint` finds, of a path with the prefix of the hub or without it."""
    return plain_endpoint(strip_prefix(prefix, path))


@cached_by_text(1024)
def plain_endpoint(path: str) -> str | None:
    """Return the address below /mcp of a path, empty for all servers; None for other and for pinned addresses.

    A pinned address may be one that only the operator gets.
    """
    if path in (PATH, f"{PATH}/"):
        return ""
    name = path[len(PATH) + 1 :].removesuffix("/")
    plain = path.startswith(f"{PATH}/") and path.isascii() and name not in ("", "server-card")
    return name if plain and "/" not in name and "@" not in name else None
