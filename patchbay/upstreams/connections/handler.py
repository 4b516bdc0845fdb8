"""Run calls of a mounted server: forward them unchanged, and return the upstream's messages as events.

The connection of a call is chosen in `placement.py`.

Progress belongs to a call by its token, which is never used twice; a log line that could be of several calls is shown
to no caller. The caller is asked the upstream's questions; where its revision ends the call for that, the upstream's
call is cancelled and repeated at the retry, and questions with recorded answers are answered at once. A result is
passed on unchanged; bytes that are not those of the CID under which they stand are refused.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from patchbay.activation import PAUSE, Call, Cancelled, Events, Handler, has_tasks, pauses
from patchbay.caller_accounts.accounts import CallersAccounts
from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.addresses.targets import mask_secrets
from patchbay.client.connection.requests import Answer
from patchbay.client.errors import HttpRefused, McpFailure, SignInNeeded, Unreachable, get_retry_after
from patchbay.errors import MissingCapability, PatchbayError, ResourceNotFound, ServerFailed, TimedOut, ToolFailed
from patchbay.events import Ask, Content, Data, Detach, Done, Event, Failed, Log, Pause, Progress, Question, Text
from patchbay.jsonrpc import dump_json
from patchbay.processes.confinement.program_denials import explain_denial, explain_refused_hosts
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.raised.forms import RAISED_KEY
from patchbay.upstreams.connections.call_roots import bring_roots
from patchbay.upstreams.connections.placement import ChosenConnection, choose_connection, has_own_connection
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.lists.snapshots import APP, MAX_MOUNTS_IN_ROW, SIGN_IN, VIA, mounts_in
from patchbay.upstreams.promised_bytes import check_result
from patchbay.upstreams.remembered_roots import RememberedRoots
from patchbay.upstreams.standing import FIRST_CONNECTION_SECONDS

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

MAX_QUESTION_ROUNDS = 20
"""Maximum number of rounds of questions in one call (2026-07-28)."""

LOGGER = "patchbay"
"""The logger of what the hub itself tells the caller."""

CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
PREFIX = "io.modelcontextprotocol/"
OWN_PREFIX = "io.patchbay/"
LOG_LEVEL = f"{PREFIX}logLevel"
REFUSED, UNKNOWN_METHOD, BAD_PARAMS, OLD_NOT_FOUND = -32600, -32601, -32602, -32002
STATUS = {UNKNOWN_METHOD: 404, BAD_PARAMS: 400, REFUSED: 400, -32020: 400, -32021: 400, -32022: 400}

Json = dict[str, Any]
ResultEvents = Generator[Event, Any, Json]


class UpstreamError(PatchbayError):
    """A JSON-RPC error of an upstream."""

    def __init__(self, failure: McpFailure) -> None:
        data = failure.data
        if isinstance(data, Mapping) and RAISED_KEY in data:  # of another hub, for its operator
            data = {key: value for key, value in data.items() if key != RAISED_KEY} or None
        super().__init__(failure.message, data)
        self.code = failure.code
        self.status = STATUS.get(failure.code, 200)
        self.retry_after = get_retry_after(failure.data)


class HttpRefusal(UpstreamError):
    """The error of a call that was refused with an HTTP status, in the hub's own words."""

    names_server = True


def upstream_handler(standing: StandingConnection) -> Handler:
    """Return the handler of targets `{"method", "name" | "uri" | "params"}`; arguments are the call's."""

    def run(call: Call) -> Events:
        method, params = _request(standing, call)
        credential: CallerCredential | None = None
        if standing.accounts is not None:
            standing.start()
            credential = yield from standing.accounts.require(call)
            if method == SIGN_IN:
                yield Text(_describe_sign_in(standing, standing.accounts))
                return
        elif standing.connection is None and not has_own_connection(standing, call):
            yield from _wait_for_connection(standing, call)
        try:
            if credential is None:
                result = yield from _run_request(standing, call, method, params)
            else:
                result = yield from _run_for_caller(standing, call, method, params, credential)
        except HttpRefused as failure:
            refusal = _refusal(standing, failure)
            yield Failed(refusal.message, refusal)
            return
        except McpFailure as failure:
            failure.message = standing.mask(failure.message)
            yield Failed(failure.message, _error(failure, method, params))
            return
        except SignInNeeded as problem:
            if standing.accounts is None:
                raise _no_answer(standing, problem) from problem
            raise ToolFailed(standing.accounts.explain(call)) from problem
        except Unreachable as problem:
            standing.check_soon()
            raise _no_answer(standing, problem) from problem
        _check_task(call, method, result, standing.mount.name)
        yield from _result_events(method, result, standing.mount.name)

    return run


def _describe_sign_in(standing: StandingConnection, accounts: CallersAccounts) -> str:
    """Say what the tool `sign_in` has done: for a way without accounts it has only shown that the caller can call."""
    listed = f"The tools of {standing.mount.name} are listed now, or in a moment."
    if accounts.way.is_stored:
        return f"Your account is connected. {listed}"
    return f"There is nothing to sign in to: {standing.mount.name} gets what your client sends with each call. {listed}"


def _check_task(call: Call, method: str, result: Json, name: str) -> None:
    """Check that a server makes no task of a call whose caller does not ask for one. Raises ServerFailed.

    The caller could not fetch the result: it knows no tasks, or knows those of the hub alone, as behind a toolset.
    """
    if method == "tools/call" and result.get("resultType") == "task" and not has_tasks(call.capabilities):
        words = "made a task of this call, which its caller did not ask for"
        raise ServerFailed(f"the server behind {name} {words}", hidden=f"the server behind it {words}")


def _no_answer(standing: StandingConnection, problem: Unreachable) -> ServerFailed:
    words = f"the server behind {standing.mount.name} gave no answer: {standing.describe(problem)}"
    return ServerFailed(words, hidden="the server behind it gave no answer")


def _refusal(standing: StandingConnection, failure: HttpRefused) -> HttpRefusal:
    """Return the error of a call that was refused with an HTTP status, in the words of the mount's page."""
    words = f"the server behind {standing.mount.name} refused the call: {standing.describe(failure)}"
    return HttpRefusal(McpFailure(failure.code, words, failure.data))


def _request(standing: StandingConnection, call: Call) -> tuple[str, Json]:
    """Return the method and params for the upstream. Raises ToolFailed for a call that leads back here."""
    target, ways = call.target, mounts_in(call.meta)
    if standing.id in ways or len(ways) >= MAX_MOUNTS_IN_ROW:
        words = f"through {len(ways)} mounted servers, so it was ended"
        raise ServerFailed(f"this call came back to {standing.mount.name} {words}", hidden=f"it came back {words}")
    # Our own keys are between this hub and its caller: all callers are one principal to the mounted server, so the id
    # of a call (`io.patchbay/call`) would let one of them join the call of another there.
    # The app that calls is its own app; a hub behind the mount finds the server of the app by it.
    given = {key: value for key, value in call.meta.items() if key == APP or not key.startswith((PREFIX, OWN_PREFIX))}
    meta = {key: value for key, value in given.items() if key != "progressToken"}
    meta[VIA] = [*ways, standing.id]
    if call.log_level is not None:
        meta[LOG_LEVEL] = call.log_level
    method = str(target["method"])
    if "params" in target:
        params = dict(target["params"])
    elif "uri" in target:
        params = {"uri": target["uri"]}
    else:
        params = {"name": target["name"], "arguments": call.arguments}
    return method, params | {"_meta": meta}


def _wait_for_connection(standing: StandingConnection, call: Call) -> Events:
    """Wait for the first connection to an upstream. Raises ToolFailed at once for an unavailable one."""
    standing.start()
    if not standing.state_known.is_set():
        call_by = min(call.left(), FIRST_CONNECTION_SECONDS)
        for wait in pauses(call):
            if standing.state_known.wait(min(wait, call_by)):
                break
            call_by -= wait
            if call_by <= 0:
                words = "is still starting; try again in a moment"
                raise ServerFailed(
                    f"the server behind {standing.mount.name} {words}", hidden=f"the server behind it {words}"
                )
            yield PAUSE
            _check_wanted(call)
    if standing.connection is None:
        words = f"the server behind {standing.mount.name} is not available: {standing.health.sentence}"
        raise ServerFailed(words, hidden="the server behind it is not available")


def _check_wanted(call: Call) -> None:
    if call.cancelled:
        raise Cancelled(call.cancelled.describe())
    if call.left() <= 0:
        raise TimedOut("timed out")


def _run_for_caller(
    standing: StandingConnection, call: Call, method: str, params: Json, credential: CallerCredential
) -> ResultEvents:
    """Run a request with the caller's own credential, and once more with another one if the server refuses it."""
    accounts = standing.accounts
    assert accounts is not None
    try:
        return (yield from _run_with(accounts, standing, call, method, params, credential))
    except SignInNeeded as problem:
        log.info("the upstream %s refused a credential: %s", standing.mount.name, standing.mask(problem.message))
        another = yield from accounts.require(call, refused=credential.id)
    return (yield from _run_with(accounts, standing, call, method, params, another))


def _run_with(
    accounts: CallersAccounts,
    standing: StandingConnection,
    call: Call,
    method: str,
    params: Json,
    credential: CallerCredential,
) -> ResultEvents:
    """Run a request with a credential, which no failure shows; the end of the credential ends the call."""
    try:
        with accounts.using(call, lambda: credential.id):
            return (yield from _run_request(standing, call, method, params, credential))
    except PatchbayError as problem:
        problem.message = mask_secrets(problem.message, credential.secrets)
        raise


def _run_request(
    standing: StandingConnection, call: Call, method: str, params: Json, credential: CallerCredential | None = None
) -> ResultEvents:
    """Send a request over the connection of the call, and return its result."""
    place, began = choose_connection(standing, call, credential), time.time()
    try:
        if place.connection is None:
            connection = yield from _wait_for_opening(standing, place, call)
            if not place.modern and place.reserved is not None:
                ping = partial(_ping, place, call, standing.roots)
                yield from bring_roots(place.reserved, connection, call, standing.roots, ping)
        result = yield from _request_in_rounds(place, call, method, params, standing.roots)
    except McpFailure:
        place.clean = True
        raise
    else:
        place.clean = True
        confinement = place.connection.confinement if place.connection is not None else None
        # What the hub adds names the server and its configuration, which a caller of a toolset may not see.
        return result if call.shown else explain_failed_result(confinement, result, began)
    finally:
        if place.reserved is not None:
            standing.call_connections.give_back(place.reserved, place.clean)
        elif place.release is not None:
            place.release()


def _wait_for_opening(
    standing: StandingConnection, place: ChosenConnection, call: Call
) -> Generator[Event, Any, Connection]:
    """Wait for the connection of a place, set and return it. Tells a session when the server has lost its state."""
    reserved = place.reserved
    assert reserved is not None
    place.connection = reserved.connection
    for wait in pauses(call) if place.connection is None else ():
        try:
            place.connection = reserved.opening.result(wait)
            break
        except TimeoutError:
            yield PAUSE
            _check_wanted(call)
        except BaseException:
            place.clean = True  # nothing was sent
            raise
    reason = standing.call_connections.take_end_reason(reserved)
    if reason:
        behind = call.shown or standing.mount.name
        words = f"{behind} has begun again for this session, without its earlier state: it was ended {reason}"
        yield Log("warning", words, LOGGER)
    assert place.connection is not None
    return place.connection


def _ping(place: ChosenConnection, call: Call, roots: RememberedRoots) -> Events:
    """Send a ping over the connection of a call, whose caller answers the questions that come before its answer."""
    yield from _request_once(place, call, "ping", {}, 0, roots)


def _request_in_rounds(
    place: ChosenConnection, call: Call, method: str, params: Json, roots: RememberedRoots
) -> ResultEvents:
    """Return the result of a request; an upstream of 2026-07-28 may require several rounds, each with more answers."""
    asked = 0
    for _ in range(MAX_QUESTION_ROUNDS):
        result, asked = yield from _request_once(place, call, method, params, asked, roots)
        if not place.modern or result.get("resultType") != "input_required":
            return result
        wanted = result.get("inputRequests") or {}
        params = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
        if "requestState" in result:
            params["requestState"] = result["requestState"]
        if wanted:
            answers = yield Ask({key: _question(one) for key, one in wanted.items()})
            params["inputResponses"] = {key: answers[key] for key in wanted}
        else:
            for wait in pauses(call):
                call.cancelled.wait(wait)
                yield PAUSE
                break
    raise ToolFailed(f"the server asked {MAX_QUESTION_ROUNDS} times for more input")


def _question(wanted: Any) -> Question:
    if not isinstance(wanted, Mapping) or not isinstance(wanted.get("method"), str):
        raise ToolFailed("the server asked for input in an unknown form")
    params = wanted.get("params")
    return Question(wanted["method"], params if isinstance(params, Mapping) else {})


def _request_once(
    place: ChosenConnection, call: Call, method: str, params: Json, asked: int, roots: RememberedRoots
) -> Generator[Event, Any, tuple[Json, int]]:
    assert place.connection is not None
    items = place.connection.request(
        method,
        params,
        timeout=math.inf,
        progress=call.progress_token is not None,
        capabilities={key: value for key, value in call.capabilities.items() if key != "tasks"},
        pauses=pauses(call),
        manual_input=True,
        caller=place.caller,
        wants_detach=method == "tools/call",
    )
    answer: Answer | None = None
    try:
        while True:
            item = items.send(answer)
            answer = None
            if isinstance(item, Question):
                asked += 1
                answer = yield from _ask_caller(item, call, asked, roots)
            elif isinstance(item, (Progress, Log, Pause, Detach)):
                yield item
    except StopIteration as end:
        return end.value, asked
    finally:
        items.close()


def _ask_caller(question: Question, call: Call, number: int, roots: RememberedRoots) -> Generator[Event, Any, Answer]:
    """Return the caller's answer to a question that came over the connection; its roots may be remembered."""
    capability = CAPABILITY.get(question.method)
    if capability is None:
        return McpFailure(UNKNOWN_METHOD, f"the caller cannot be asked for {question.method}")
    if not isinstance(call.capabilities.get(capability), Mapping):
        if capability == "roots":
            # Many servers ask for roots right after the handshake: the question may not belong to this call.
            return McpFailure(UNKNOWN_METHOD, "the caller has no roots")
        raise MissingCapability({capability: {}})
    if capability == "roots" and (remembered := roots.find(call.principal, call.client)) is not None:
        return remembered
    # A repeated call asks again: only the same question finds the recorded answer.
    text = dump_json([question.method, question.params], is_sorted=True)
    key = f"{number}-{sha256(text).hexdigest()[:16]}"
    generation = roots.name_generation(call.principal, call.client) if capability == "roots" else ""
    answers = yield Ask({key: question})
    found: Answer = answers[key]
    if capability == "roots" and isinstance(found, Mapping):
        roots.remember(call, found, generation)
    return found


def _error(failure: McpFailure, method: str, params: Mapping[str, Any]) -> PatchbayError:
    """Return the error in a form for callers of any revision."""
    named = isinstance(failure.data, Mapping) and "uri" in failure.data
    if method == "resources/read" and (failure.code == OLD_NOT_FOUND or (failure.code == BAD_PARAMS and named)):
        missing = ResourceNotFound(str(params["uri"]))
        missing.message = failure.message
        return missing
    return UpstreamError(failure)


def _result_events(method: str, result: Json, name: str) -> Events:
    """Yield the events of a result, and the result itself."""
    shown = result
    if "_meta" in result:
        meta = result["_meta"]
        if isinstance(meta, Mapping):
            # What another hub shows to its operator is not for the callers of this one.
            meta = {key: value for key, value in meta.items() if not key.startswith(PREFIX) and key != RAISED_KEY}
        shown = {key: value for key, value in result.items() if key != "_meta"} | ({"_meta": meta} if meta else {})
    check_result(shown, f"the server behind {name}")
    if method == "tools/call" and result.get("resultType", "complete") == "complete":
        yield from _tool_result_events(shown, name)
        return
    for content in _objects(shown.get("contents", []), name):
        yield Content({"type": "resource", "resource": content})
    if "messages" in shown:
        yield Data({"messages": _objects(shown["messages"], name)})
    yield Done(shown)


def _tool_result_events(result: Json, name: str) -> Events:
    blocks = _objects(result.get("content", []), name)
    for block in blocks:
        if not isinstance(block.get("type"), str):
            raise ServerFailed(f"the server behind {name} gave a content block without a type")
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise ServerFailed(f"the server behind {name} gave a text block without a text")
    result = {**result, "content": blocks}
    for block in blocks:
        yield Content(block)
    if "structuredContent" in result:
        yield Data(result["structuredContent"], text="")
    if result.get("isError"):
        yield Failed(" ".join(block["text"] for block in blocks if block["type"] == "text"), result=result)
    else:
        yield Done(result)


def _objects(found: Any, name: str) -> list[Json]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ServerFailed(f"the server behind {name} gave a result that breaks the MCP specification")
    return found


def explain_failed_result(
    confinement: ProgramConfinement | None, result: dict[str, Any], since: float
) -> dict[str, Any]:
    """Return a failed result with a text on what the program was refused: a file, or hosts `since` the call began.

    `confinement` is that of the process that ran the call, None for a server that is no program; `since` is Unix time
    in seconds.
    """
    content = result.get("content")
    if confinement is None or not result.get("isError") or not isinstance(content, list):
        return result
    texts = [block.get("text") for block in content if isinstance(block, Mapping)]
    said = "\n".join(text for text in texts if isinstance(text, str))
    hint = explain_denial(confinement, said) or explain_refused_hosts(confinement, since)
    return {**result, "content": [*content, {"type": "text", "text": hint}]} if hint else result
