"""The native interface over HTTP: POST /rpc.

Each post is one request. `Accept` selects the form of the answer: an event stream, lines of JSON, or one JSON document
with all items, after the end of the call. The checks of a request are those of /mcp, in the same order. A client that
closes the connection cancels its call, in each form: it cannot resume it.
Source: docs/native.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from patchbay.activation import CancelFlag
from patchbay.errors import PatchbayError
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Notification, Result, encode, failure, parse, readable_id
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.native.subscription import Native, Stream, parse_request
from patchbay.settings import Settings
from patchbay.views.native import collected
from patchbay.views.sse import COMMENT, event
from patchbay.wire.pipes.lines import as_line
from patchbay.wire.replies.accept import JSON, NDJSON, STREAM, preferred_form
from patchbay.wire.replies.reply import Later, Reply, json_reply, refusal, stream_reply
from patchbay.wire.replies.sse import Body
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.bodies import check_json, read_body
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.request import Request

log = logging.getLogger(__name__)

PATH = "/rpc"


class NativeOverHttp:
    """Answers posts to /rpc."""

    def __init__(self, dispatcher: Dispatcher, settings: Settings) -> None:
        self._dispatcher = dispatcher
        self._native = Native(dispatcher.services, dispatcher.cancellations)
        self._settings = settings

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return the endpoint of a request; None for a request of another path."""
        return self._answer if request.path.removesuffix("/") == PATH else None

    def _answer(self, request: Request) -> Reply:
        return with_cors(request, self._reply(request))

    def _reply(self, request: Request) -> Reply:
        """Return the answer to a request; errors are JSON-RPC messages, never a page."""
        try:
            if request.method == "OPTIONS":
                return Reply(204)
            if request.method != "POST":
                return refusal(405, "this address accepts only POST", ("Allow", "POST"))
            return self._post(request)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        except Exception:
            return json_reply(failure(None, incident(log, f"at {PATH}")), 500)

    def _post(self, request: Request) -> Reply:
        check_json(request)
        form = preferred_form(request.headers.get("accept", ""))
        if form is None:
            return refusal(406, f"Accept has to name {STREAM}, {NDJSON} or {JSON}")
        value = parse(read_body(request, self._settings.body_limit))
        try:
            sent = parse_request(value)
        except PatchbayError as problem:
            return json_reply(failure(readable_id(value), problem), problem.status)
        if sent is None:
            return Reply(202)
        # Requests of one principal share their subscriptions: over HTTP the id is enough to unsubscribe.
        wire = TransportInfo(
            *("", None, request.sender),
            way="native",
            find_base_url=partial(find_base_url, request),
            find_header=request.headers.get,
        )
        flag = CancelFlag()
        answer = self._native.answer(sent, wire, flag)
        if isinstance(answer, Failure):
            return json_reply(answer, answer.status)
        if form == JSON:
            if isinstance(answer, Result):
                return json_reply(answer)
            return Reply(later=_collect(answer), leave=flag.leave)
        return self._stream(_single(answer) if isinstance(answer, Result) else answer, form, flag)

    def _stream(self, messages: Stream, form: str, flag: CancelFlag) -> Reply:
        body = Body(_frames(messages, form), messages, flag.leave)
        self._dispatcher.streams.add(body)
        return stream_reply(body, form)


def _collect(messages: Stream) -> Later:
    """Return the answer with all items, after the end of the call; at each Pause the client may have left."""
    collecting: list[Result | Notification] = []
    try:
        with closing(messages):
            for message in messages:
                if isinstance(message, Pause):
                    yield message.wait
                else:
                    collecting.append(message)
        return json_reply(collected(collecting))
    except PatchbayError as problem:
        return json_reply(failure(None, problem), problem.status)
    except Exception:
        return json_reply(failure(None, incident(log, f"at {PATH}")), 500)


def _single(answer: Result) -> Stream:
    yield answer


def _frames(messages: Stream, form: str) -> Iterator[bytes]:
    """Yield each message as an event or as a line; a Pause becomes a frame that readers of the form ignore."""
    lines = form == NDJSON
    for message in messages:
        if isinstance(message, Pause):
            yield b"\n" if lines else COMMENT
        else:
            yield as_line(encode(message)) if lines else event(encode(message))
