"""The table of all methods, each with the revisions that have it. The methods that run code are in `calls.py`.

Source: MCP specification, schema of each revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.activation import TASKS
from patchbay.app_uris import names_app
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams, MethodNotFound
from patchbay.events import LOG_LEVELS
from patchbay.jsonrpc import Message, Result, Sign
from patchbay.messages.versions import MODERN, Revision
from patchbay.protocol.calls import call_tool, get_prompt, read_resource
from patchbay.protocol.completion import complete
from patchbay.protocol.event_methods.methods import list_events, poll_events
from patchbay.protocol.event_methods.requests import EVENTS
from patchbay.protocol.event_methods.streams import stream_events
from patchbay.protocol.event_methods.webhooks import subscribe, unsubscribe
from patchbay.protocol.first_lists import await_first_lists, has_lists
from patchbay.protocol.groups import has_groups, list_groups
from patchbay.protocol.lists import APPS, GROUPS
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.skills import SKILLS, get_skill, list_skills, read_directory
from patchbay.protocol.streams.subscriptions import MAX_URI_CHARACTERS, MAX_URIS, configured_capabilities, find_readable
from patchbay.protocol.tasks.methods import cancel_task, get_task, update_task, watched
from patchbay.protocol.translate import implementation, stamped

Answers = Iterator[Message | Sign]


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the function that answers it, its eras, and the feature that a revision `needs` for it."""

    run: Callable[[RequestContext], Answers]
    legacy: bool = True
    modern: bool = True
    needs: str = ""

    def exists_in(self, revision: Revision) -> bool:
        return (self.modern if revision.modern else self.legacy) and self.needs not in revision.absent


def capabilities(context: RequestContext) -> dict[str, Any]:
    """Return the capabilities of a server, derived from its features.

    A configuration may declare fewer capabilities for a revision.
    """
    declared = configured_capabilities(context.server, context.caller.revision)
    if declared is not None:
        return dict(declared)
    moves = not context.server.pinned and not context.services.catalogue.readonly
    found: dict[str, Any] = {
        "tools": {"listChanged": moves},
        "resources": {"subscribe": moves and context.server.tells_of_updates, "listChanged": moves},
        "prompts": {"listChanged": moves},
        "logging": {},
        "completions": {},
        "extensions": _extensions(context),
    }
    if EVENTS in found["extensions"]:
        # Some clients read the capability where drafts of the extension had it.
        found["events"] = {"listChanged": moves}
    if GROUPS in found["extensions"]:
        found["groups"] = {"listChanged": False}  # where the draft of the extension has it
    if not found["extensions"]:
        del found["extensions"]
    if context.server.upstream is not None and "completions" not in context.server.offers:
        del found["completions"]
    return {name: value for name, value in found.items() if name not in context.caller.revision.absent}


def _extensions(context: RequestContext) -> dict[str, Any]:
    """Return the extensions with their settings: tasks if revision and server support them, skills and apps if any."""
    found: dict[str, Any] = {}
    if context.caller.revision.modern and context.server.events:
        moves = not context.server.pinned and not context.services.catalogue.readonly
        found[EVENTS] = {"listChanged": moves}
    if context.server.upstream is not None:
        offered = context.server.offers.get("extensions") or {}
        return found | {
            name: offered[name] for name in (TASKS, SKILLS, APPS) if name in offered and _has(context, name)
        }
    if context.caller.revision.modern and context.server.tools:
        found[TASKS] = {}
    if context.server.skills:
        found[SKILLS] = {"directoryRead": True}
    if context.caller.extends(APPS) and any(names_app(one.wire) for one in context.server.tools.values()):
        found[APPS] = {}
    if has_groups(context):
        found[GROUPS] = {"listChanged": False}
    return found


def _has(context: RequestContext, extension: str) -> bool:
    """Whether the caller can use an extension of a mounted server: its revision, or its rights, may exclude it."""
    if extension == APPS:
        return True
    return context.caller.revision.modern if extension == TASKS else context.catalogue.shows_everything


def _simply(answer: Callable[[RequestContext], Any]) -> Callable[[RequestContext], Answers]:
    def run(context: RequestContext) -> Answers:
        yield Result(context.request.id, answer(context))

    return run


def _initialize(context: RequestContext) -> dict[str, Any]:
    revision = context.caller.revision
    result: dict[str, Any] = {
        "protocolVersion": revision.name,
        "capabilities": capabilities(context),
        "serverInfo": implementation(context.server, revision),
    }
    if context.server.instructions:
        result["instructions"] = context.server.instructions
    return result


def _discover(context: RequestContext) -> dict[str, Any]:
    result: dict[str, Any] = {"supportedVersions": list(MODERN), "capabilities": capabilities(context)}
    if context.server.instructions:
        result["instructions"] = context.server.instructions
    return stamped(result, context.server, context.caller.revision, cache=True)


def _set_level(context: RequestContext) -> dict[str, Any]:
    level = context.params.get("level")
    if level not in LOG_LEVELS:
        raise InvalidParams(f"params.level has to be one of {', '.join(LOG_LEVELS)}; it is {level!r}")
    if context.caller.session is not None:
        context.services.sessions.change(context.caller.session, level=level)
    return {}


def _subscription(change: str) -> Callable[[RequestContext], dict[str, Any]]:
    def answer(context: RequestContext) -> dict[str, Any]:
        declared = configured_capabilities(context.server, context.caller.revision)
        told = context.server.tells_of_updates if declared is None else declared.get("resources", {}).get("subscribe")
        if not told:
            raise MethodNotFound(
                f"{context.request.method}: {context.server.name} has no subscriptions in this revision"
            )
        uri = context.params.get("uri")
        if not isinstance(uri, str) or len(uri) > MAX_URI_CHARACTERS:
            raise InvalidParams(f"params.uri has to be a string of at most {MAX_URI_CHARACTERS} characters")
        session = context.caller.session
        if change == "subscribed" and session is not None and len(session.subscribed | {uri}) > MAX_URIS:
            raise InvalidParams(f"a session can subscribe to {MAX_URIS} resources at most")
        if context.caller.session is not None:
            context.services.sessions.change(context.caller.session, **{change: uri})
        if change == "subscribed":
            _want(context, [uri])
        return {}

    return answer


def _want(context: RequestContext, uris: list[str]) -> None:
    """Subscribe to these resources on the mounted servers that own them, as far as the caller may read them."""
    server = context.server
    for uri in uris:
        if server.is_composed:
            _want_behind(context, uri)
            continue
        owner = server.resource_owner(uri) if isinstance(server, Aggregate) else (server, uri)
        if owner is not None and owner[0].upstream is not None and context.catalogue.hears_of(owner[0].name, owner[1]):
            owner[0].upstream.subscribe([owner[1]])


def _want_behind(context: RequestContext, uri: str) -> None:
    """Subscribe to a resource of a toolset on the mounted server behind it, as far as the caller may read it."""
    found, catalogue = find_readable(context.server, uri), context.services.catalogue
    if found is None or not context.catalogue.hears_of(context.server.name, uri):
        return
    names = [uri if found.kind == "template" else one.name for one in found.origins]
    if any(context.catalogue.forbids(one.server, name) for one, name in zip(found.origins, names, strict=True)):
        return
    behind = catalogue.find_any(found.origins[-1].server)
    if behind is not None and behind.upstream is not None:
        behind.upstream.subscribe([names[-1]])


def _listing(kind: str) -> Callable[[RequestContext], Any]:
    def answer(context: RequestContext) -> Any:
        server, caller = _wait_for_lists(context), context.caller
        return context.services.lists.page(
            server, kind, caller.revision, context.params, caller.extends(APPS), has_groups(context)
        )

    return answer


def _wait_for_lists(context: RequestContext) -> Server:
    """Return the server of a list; one that is mounted and has never answered gets a moment for its first answer."""
    server = context.server
    if server.standing is None or has_lists(server):
        return server
    if not await_first_lists(context.services.catalogue, server, context.params.get("_meta")):
        return server
    return context.catalogue.find(server.name)


def _listen(context: RequestContext) -> Answers:
    wanted = context.params.get("notifications")
    watch = watched(context, wanted) if context.server.upstream is None else None
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
    if isinstance(uris, list):
        _want(context, [uri for uri in uris[:MAX_URIS] if isinstance(uri, str) and len(uri) <= MAX_URI_CHARACTERS])
    return context.services.listeners.listen(
        context.server, context.caller, context.request.id, wanted, context.cancelled, watch
    )


METHODS: dict[str, Method] = {
    "initialize": Method(_simply(_initialize), modern=False),
    "ping": Method(_simply(lambda context: {}), modern=False),
    "logging/setLevel": Method(_simply(_set_level), modern=False),
    "resources/subscribe": Method(_simply(_subscription("subscribed")), modern=False),
    "resources/unsubscribe": Method(_simply(_subscription("unsubscribed")), modern=False),
    "server/discover": Method(_simply(_discover), legacy=False),
    "subscriptions/listen": Method(_listen, legacy=False),
    "tools/list": Method(_simply(_listing("tools"))),
    "resources/list": Method(_simply(_listing("resources"))),
    "resources/templates/list": Method(_simply(_listing("templates"))),
    "prompts/list": Method(_simply(_listing("prompts"))),
    "groups/list": Method(_simply(list_groups), needs="extensions"),
    "completion/complete": Method(_simply(complete)),
    "tools/call": Method(call_tool),
    "resources/read": Method(read_resource),
    "prompts/get": Method(get_prompt),
    "tasks/get": Method(_simply(get_task), legacy=False),
    "tasks/update": Method(_simply(update_task), legacy=False),
    "tasks/cancel": Method(_simply(cancel_task), legacy=False),
    "events/list": Method(_simply(list_events), legacy=False),
    "events/poll": Method(_simply(poll_events), legacy=False),
    "events/stream": Method(stream_events, legacy=False),
    "events/subscribe": Method(_simply(subscribe), legacy=False),
    "events/unsubscribe": Method(_simply(unsubscribe), legacy=False),
    "skills/list": Method(_simply(list_skills), needs="extensions"),
    "skills/get": Method(_simply(get_skill), needs="extensions"),
    "resources/directory/read": Method(_simply(read_directory), needs="extensions"),
}
