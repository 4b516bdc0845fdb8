"""The three methods that run code: tools/call, resources/read, prompts/get.

One loop drives all of them: events become notifications, questions go to the caller, and the fold becomes the result.
A failure of a tool is a result; a malformed envelope is an error.
Source: MCP specification, server/tools, server/resources, server/prompts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from patchbay.access.principals import LOCAL_ID
from patchbay.activation import FIRST_PAUSE_SECONDS, NEXT_PAUSE, PAUSE, TASKS, Call, Events, Stopping
from patchbay.app_uris import public_links
from patchbay.catalogue.reading.prompts import prompt_events, prompt_messages
from patchbay.catalogue.reading.resources import collect_contents, find_resource, resource_events
from patchbay.catalogue.servers.server import ServerCache
from patchbay.descriptors import Descriptor
from patchbay.errors import (
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    OverQuota,
    PatchbayError,
    ResourceNotFound,
    ToolFailed,
    WrongArguments,
)
from patchbay.events import Ask, Detach, Done, Event, Failed, Pause
from patchbay.jsonrpc import Message, Result, Sign
from patchbay.messages.callers import Caller
from patchbay.protocol.admission.headers import annotated, check_parameters
from patchbay.protocol.client_requests import ClientRequester, InputRequired, OpenStream, RetriedRequester
from patchbay.protocol.completion import without_hidden
from patchbay.protocol.jobs.deferring import defer, is_job
from patchbay.protocol.lists import APPS
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.routing import public_contents
from patchbay.protocol.run_tool import (
    ToolRun,
    UnknownTool,
    check_reading_app,
    check_visibility,
    count_call,
    find_tool,
    nearest,
    new_call,
    owner_of,
    run_tool,
)
from patchbay.protocol.tasks.methods import created, need_tasks, passed_on
from patchbay.protocol.tasks.tasks import TaskWork
from patchbay.protocol.translate import Notifier, block, not_served, stamped, tool_result
from patchbay.views.fold import Fold, folded

Answers = Iterator[Message | Sign]

MAX_CLIENT_NAME_CHARACTERS = 200
_ANSWERS = ("inputResponses", "requestState")

_PARAMETERS: ServerCache[str, tuple[tuple[str, tuple[str, ...]], ...]] = ServerCache()
"""The annotated arguments of tools, by the name of the tool."""


def call_tool(context: RequestContext) -> Answers:
    """Answer tools/call: check the arguments, run the tool, yield the answers."""
    name, arguments = _read_name_and_arguments(context.params)
    try:
        descriptor = find_tool(context.server, name)
        shows_apps = context.caller.extends(APPS) and not context.proxied
        check_visibility(context.server, descriptor, context.app, shows_apps)
        # A client that uses `call_tool` repeats the arguments of that tool in headers, and it has no such arguments.
        if context.caller.revision.modern and context.caller.wire.headers is not None and not context.proxied:
            parameters = _PARAMETERS.get(context.server, name, lambda: tuple(annotated(descriptor.wire["inputSchema"])))
            check_parameters(context.caller.wire.headers, parameters, arguments)
        as_job = is_job(context, descriptor)
        if as_job and (queued := defer(context, descriptor, arguments)) is not None:
            yield Result(context.request.id, created(queued, context))
            return
        reference = context.services.reference(context.caller.wire.principal)
        run = run_tool(
            context.services.catalogue.hub, context.server, descriptor, arguments, reference, _terms(context)
        )
    except WrongArguments as problem:
        if context.caller.revision.argument_errors:
            raise InvalidParams(problem.message, problem.data) from problem
        yield _failed(context, problem.message)
        return
    except UnknownTool as problem:
        yield _failed(context, problem.message)
        return
    except OverQuota as problem:
        # A model reads a result, and may wait; most clients treat an HTTP error as a broken connection.
        yield replace(_failed(context, problem.message), retry_after=problem.retry_after)
        return
    _record(context, descriptor, run.call)
    work = TaskWork(run.call, run.events, run.fold, lambda fold: _tool_answer(context, run))
    if as_job and (task := _as_task(context, work)) is not None:
        yield Result(context.request.id, task)
        return
    yield from _conversation(context, work, "outputSchema" in descriptor.wire)


def read_resource(context: RequestContext) -> Answers:
    """Answer resources/read with the contents of a URI, which are made at each read."""
    uri = context.params.get("uri")
    if not isinstance(uri, str) or not uri:
        raise InvalidParams("params.uri has to be a string, the URI of a resource")
    if context.app is not None:
        check_reading_app(context.server, uri, context.app)
    catalogue = context.catalogue
    found = find_resource(catalogue, context.server, uri, context.caller.wire.principal)
    call = _call(context, found.descriptor, found.variables)
    events = resource_events(catalogue, context.server, found, call)

    def answer(fold: Fold) -> dict[str, Any]:
        contents = collect_contents(fold, found, context.services.settings.read_limit)
        whole = catalogue.aggregate() if not context.caller.wire.endpoint else None
        contents = public_contents(contents, context.server, uri, context.asked_uri, whole)
        result = {**_members(fold), "contents": contents}
        return stamped(result, context.server, context.caller.revision, cache=True, stays=found.is_permanent)

    yield from _conversation(context, _work(context, found.descriptor, call, events, answer))


def get_prompt(context: RequestContext) -> Answers:
    """Answer prompts/get with the messages of a prompt, its arguments filled in."""
    name, arguments = _read_name_and_arguments(context.params)
    descriptor = context.server.prompts.get(name)
    if descriptor is None:
        raise InvalidParams(f"there is no prompt {name!r} here{nearest(name, context.server.prompts)}")
    call = _call(context, descriptor, arguments)
    events = prompt_events(context.server, descriptor, call)

    def answer(fold: Fold) -> dict[str, Any]:
        messages = prompt_messages(fold, descriptor)
        if not context.caller.wire.endpoint:
            messages = [{**one, "content": public_links([one["content"]], context.server.name)[0]} for one in messages]
        shown = [{**one, "content": block(one["content"], context.caller.revision)} for one in messages]
        result: dict[str, Any] = {**_members(fold), "messages": shown}
        if "description" in descriptor.wire and "description" not in result:
            result["description"] = descriptor.wire["description"]
        return stamped(result, context.server, context.caller.revision)

    yield from _conversation(context, _work(context, descriptor, call, events, answer))


def relay(context: RequestContext) -> Answers:
    """Pass a request to the mounted server and its result back, both unchanged."""
    if not context.catalogue.shows_everything:
        _check_relayed(context)
    ours = ("_meta", *_ANSWERS) if _answers_given(context) else ("_meta",)
    params = {key: value for key, value in context.params.items() if key not in ours}
    call = _call(context, None, {})
    call.target = {"method": context.request.method, "params": params}
    here = Descriptor("tool", context.request.method, {}, call.target)

    def answer(fold: Fold) -> dict[str, Any]:
        if fold.ending is None or fold.ending.result is None:
            raise ToolFailed(" ".join(block.get("text", "") for block in fold.result()["content"]))
        cache = not context.request.method.startswith(("completion/", "tasks/"))
        result = dict(fold.ending.result)
        completion = result.get("completion") if context.request.method == "completion/complete" else None
        if isinstance(completion, Mapping):
            result["completion"] = without_hidden(context, completion)
        return stamped(passed_on(result, context), context.server, context.caller.revision, cache)

    yield from _conversation(context, _work(context, None, call, context.server.activate(here, call), answer))


def _check_relayed(context: RequestContext) -> None:
    """Check a request that a mounted server answers, of a caller that may not see everything of the hub.

    The hub does not know the skills of a mounted server one by one, so that such a caller gets none. Raises
    MethodNotFound.
    """
    method = context.request.method
    if method.startswith(("skills/", "resources/directory/")):
        raise MethodNotFound(f"there is no method {method!r} here: {context.server.name} has no skills")


def _members(fold: Fold) -> dict[str, Any]:
    """Return the further members of a mounted server's result."""
    result = fold.ending.result if fold.ending is not None else None
    return {key: value for key, value in (result or {}).items() if key not in ("ttlMs", "cacheScope")}


def _read_name_and_arguments(params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise InvalidParams("params.name has to be a string")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidParams("params.arguments has to be an object")
    return name, arguments


def _call(context: RequestContext, descriptor: Descriptor | None, arguments: dict[str, Any]) -> Call:
    call = new_call(context.services.catalogue.hub, context.server, descriptor, arguments, _terms(context))
    _record(context, descriptor, call)
    return call


def _terms(context: RequestContext) -> dict[str, Any]:
    """Return the fields of a Call that depend on the caller."""
    caller, meta, token = context.caller, context.request.params.get("_meta"), None
    if isinstance(meta, dict):
        token = meta.get("progressToken")
        if isinstance(token, bool) or not isinstance(token, (str, int)):
            token = None
    else:
        meta = {}
    return {
        "principal": caller.wire.principal,
        "sender": caller.wire.sender,
        "capabilities": caller.capabilities,
        "log_level": caller.log_level,
        "progress_token": token,
        "meta": meta,
        "cancelled": context.cancelled,
        "client": _name_client(caller, meta),
        "session": caller.owner or "",
        "answered": _answered(context),
        "find_base_url": caller.wire.find_base_url,
        "find_header": caller.wire.find_header,
    }


def _name_client(caller: Caller, meta: Mapping[str, Any]) -> str:
    """Return what names the client among those of its principal, "" if nothing does.

    A client of 2026-07-28 over HTTP has no session. Its own name counts only for a principal with an identity, because
    all others are one principal.
    """
    info = meta.get("io.modelcontextprotocol/clientInfo")
    if caller.owner is not None or caller.wire.sender.id == LOCAL_ID or not isinstance(info, dict):
        return caller.owner or ""
    return f"{info.get('name')} {info.get('version')}"[:MAX_CLIENT_NAME_CHARACTERS]


def _record(context: RequestContext, descriptor: Descriptor | None, call: Call) -> None:
    """Add the descriptor and the deadline to the record of this request; the call continues the record's trace."""
    if context.run is not None:
        call.meta = context.run.calls(descriptor, call)


def _work(
    context: RequestContext,
    descriptor: Descriptor | None,
    call: Call,
    events: Events,
    answer: Callable[[Fold], dict[str, Any]],
) -> TaskWork:
    """Return the work of a call whose events are folded as they pass. Raises OverQuota."""
    fold = Fold()
    server = owner_of(context.server, descriptor)
    place = count_call(context.services.catalogue.hub, call, server, context.run)
    return TaskWork(call, folded(events, fold, place=place), fold, answer)


def _failed(context: RequestContext, sentence: str) -> Result:
    result = {"content": [{"type": "text", "text": sentence}], "isError": True}
    return Result(context.request.id, stamped(result, context.server, context.caller.revision))


def _conversation(context: RequestContext, work: TaskWork, promised: bool = True) -> Answers:
    """Drive an activation to its end; the last message is the answer. A call that its caller cancelled gets none.

    A tool may yield many events that this caller does not get. A Pause follows them from time to time, because the hub
    notices that a caller has left only when it sends a message.
    """
    call, events, fold = work.call, work.events, work.fold
    notifier = Notifier(context.caller, call.progress_token, bool(call.target.get("streams")))
    asker = _asker(context) if _answers_given(context) else None
    run, reply, handed_on = context.run, None, False
    sent_at, silence = time.monotonic(), FIRST_PAUSE_SECONDS
    try:
        while True:
            event = events.send(reply)
            kind, reply = type(event), None
            if isinstance(event, Pause):
                sent_at, silence = time.monotonic(), NEXT_PAUSE
                yield event
                continue
            if run is not None:
                run.saw(event)
            if kind is Done or kind is Failed:
                _raise_for(event, context)
                break
            if isinstance(event, Detach):
                task = _as_task(context, work)
                if task is not None:
                    handed_on = True
                    yield Result(context.request.id, task)
                    return
                yield from _detached(context, event)
            elif isinstance(event, Ask):
                asker = asker or _asker(context)
                reply = yield from asker.ask(event, call)
            else:
                for message in notifier.notifications_for(event):
                    sent_at, silence = time.monotonic(), NEXT_PAUSE
                    yield message
                if time.monotonic() - sent_at >= silence:
                    sent_at, silence = time.monotonic(), NEXT_PAUSE
                    yield PAUSE
        yield from _final_answer(context, work, promised)
    except InputRequired as question:
        call.is_repeated = True
        yield Result(context.request.id, stamped(question.result, context.server, context.caller.revision))
    except ToolFailed as problem:
        fold.add(Failed(problem.message))
        yield from _final_answer(context, work, promised)
    finally:
        if not handed_on:
            events.close()


def _final_answer(context: RequestContext, work: TaskWork, promised: bool) -> Answers:
    """Yield the answer to a call that has ended: none if its caller cancelled it, only the reason if the hub ended it.

    `ToolRun.result` has that reason in the result of a tool.
    """
    cancelled = work.call.cancelled
    if cancelled.is_unanswered:
        return
    if cancelled.by_hub and context.request.method != "tools/call":
        yield not_served(ToolFailed(cancelled.describe()), context.request.id, context.caller.revision)
        return
    yield Result(context.request.id, work.answer(work.fold), promised=promised)


def _as_task(context: RequestContext, work: TaskWork) -> dict[str, Any] | None:
    """Return the CreateTaskResult of a call that continues as a task; None if that is impossible.

    The server behind a mount answers the methods of tasks there, and knows no task of this hub.
    """
    if not (_may_be_task(context) and context.caller.extends(TASKS)) or context.server.upstream is not None:
        return None
    context.cancelled.outlives_caller = True
    task = context.services.tasks.start(work, context.caller.wire.endpoint)
    context.cancelled.outlives_caller = task is not None
    return created(task, context) if task is not None else None


def _may_be_task(context: RequestContext) -> bool:
    return context.caller.revision.modern and context.request.method == "tools/call"


def _detached(context: RequestContext, event: Detach) -> Answers:
    """Let the caller disconnect if its revision can resume. Raises ToolFailed if the call requires that and cannot."""
    if context.caller.revision.priming and context.caller.session is not None:
        yield event
    elif event.required and _may_be_task(context):
        need_tasks(context.caller)
        raise ToolFailed("too many tasks are running (setting tasks), or the hub is stopping; try again later")
    elif event.required:
        raise ToolFailed(
            "this call runs in the background: expected a client with tasks, or one that can resume a stream"
        )


def _raise_for(ending: Event, context: RequestContext) -> None:
    """Raise the failures that become JSON-RPC errors, such as a capability that a modern caller did not declare."""
    if isinstance(ending, Failed) and isinstance(ending.error, PatchbayError):
        if isinstance(ending.error, Stopping):
            return
        if isinstance(ending.error, ResourceNotFound) and context.request.method != "resources/read":
            return
        if isinstance(ending.error, MissingCapability) and not context.caller.revision.modern:
            return
        if isinstance(ending.error, WrongArguments):
            if context.request.method == "tools/call" and not context.caller.revision.argument_errors:
                return
            raise InvalidParams(ending.message, {"details": [{"path": "", "message": ending.message}]})
        raise ending.error


def _answers_given(context: RequestContext) -> bool:
    # In methods of tasks, these members are ordinary parameters.
    if not context.caller.revision.modern or context.request.method.startswith("tasks/"):
        return False
    return any(key in context.params for key in _ANSWERS)


def _answered(context: RequestContext) -> frozenset[str]:
    """Return the keys of the answers that a repeated call brings."""
    given = context.params.get("inputResponses") if _answers_given(context) else None
    return frozenset(given) if isinstance(given, dict) else frozenset()


def _asker(context: RequestContext) -> ClientRequester:
    if context.caller.revision.modern:
        # The name of a server has no blank, so the pair is unambiguous.
        return RetriedRequester(
            context.services.states, context.request, f"{context.server.name} {context.caller.wire.principal}"
        )
    if context.caller.session is None or not context.caller.wire.streams:
        raise ToolFailed(
            "this call asks its caller something, which needs a session and an Accept header with text/event-stream"
        )
    return OpenStream(context.services.catalogue.store.bus, context.caller.session)


def _tool_answer(context: RequestContext, run: ToolRun) -> dict[str, Any]:
    result = run.result()
    if "content" not in result:  # a task that a mounted server made of the call
        return stamped(passed_on(result, context), context.server, context.caller.revision)
    if not context.caller.wire.endpoint and context.app is None:
        result = {**result, "content": public_links(result["content"], context.server.name)}
    return stamped(tool_result(result, context.caller.revision), context.server, context.caller.revision)
