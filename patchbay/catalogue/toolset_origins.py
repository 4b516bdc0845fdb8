"""Calls and reads of the entries of toolsets, at the servers behind them.

An entry shows one version of one entry of another server, its origin. A caller may use it without a right to know what
is behind it: no sentence that reaches the caller names the origin, unless the caller may see that server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from patchbay.activation import Call, CallPlace, Events, share_time_limits, without_tasks
from patchbay.catalogue.reading.prompts import prompt_events
from patchbay.catalogue.reading.resources import CatalogueForReading, find_resource, resource_events
from patchbay.catalogue.reading.toolset_templates import excludes_uri, gives_chosen
from patchbay.catalogue.reading.uri_owners import HUB_SCHEMES, scheme_of
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.visible_catalogue import is_denied_by_older_name
from patchbay.descriptors import Descriptor
from patchbay.errors import OverQuota, PatchbayError, ResourceNotFound, ServerFailed, ToolFailed, UnknownServer
from patchbay.events import Done, Ending, Failed
from patchbay.views.fold import Fold, ValueFold, folded

log = logging.getLogger(__name__)

BeginOriginCall = Callable[[Any, str], CallPlace | None]
"""Counts a call through a toolset on the server behind it; None if it needs no count. Raises OverQuota."""


class CatalogueOfOrigins(CatalogueForReading, Protocol):
    """The part of the catalogue that is used here."""

    def begin(self, name: str) -> bool: ...


class HubOfOrigins(Protocol):
    """The services of the hub that are used here (`CatalogueHub`)."""

    begin_origin_call: BeginOriginCall

    def seen_by(self, call: Call) -> CatalogueForReading: ...

    def remember(self, server: Server, tool: str, result: dict[str, Any]) -> None: ...


class ToolsetOrigins:
    """Finds what is behind the entries of toolsets, and passes calls and reads on to it."""

    def __init__(self, catalogue: CatalogueOfOrigins, hub: HubOfOrigins) -> None:
        self._catalogue = catalogue
        self._hub = hub

    def pass_on(self, entry: Descriptor, arguments: dict[str, Any], call: Call) -> Events:
        """Return the events of the origin of an entry of a toolset, for a call of that entry.

        The call goes on with its rights, its deadline, its questions and its cancellation. Raises ToolFailed when the
        caller may not use the origin, when it is not there, or when it is no longer the one that the entry shows.
        """
        server = self._find_server(entry, call)
        descriptor = server.tools[entry.origins[0].name]
        word, before, shown = f"{server.name}.{descriptor.name}", call.chain[:-1], _shown(entry, call)
        if word in before:
            raise ToolFailed(f"{shown} leads back to a tool that called it")
        is_mounted = server.upstream is not None
        capabilities = without_tasks(call.capabilities) if is_mounted else call.capabilities
        # `share_time_limits` keeps the limits of both calls the same.
        inner = call.changed(
            server=server.name,
            target=descriptor.target,
            arguments=arguments,
            capabilities=capabilities,
            chain=(*before, word),
            shown=shown,
        )
        place = self.count(server, call, shown)
        return share_time_limits(call, inner, self._origin_events(server, descriptor, inner, place))

    def count(self, server: Server, call: Call, shown: str) -> CallPlace | None:
        """Count a call of an entry, `shown` to its caller, against the quotas of its sender on the server behind it.

        Raises ToolFailed when a quota is used up. Its own message would name the server.
        """
        try:
            return self._hub.begin_origin_call(call.sender, server.name)
        except OverQuota as problem:
            raise ToolFailed(f"too many calls of {shown}; try again in {problem.retry_after} s") from problem

    def pass_on_reading(self, entry: Descriptor, uri: str, call: Call) -> Events:
        """Return the events of the origin of a resource, template or prompt of a toolset; `uri` is what is read.

        A template gives what it matches, but no resource that its server lists by itself: that one is chosen apart;
        nor what the toolset excludes. Raises ToolFailed, ResourceNotFound and InvalidParams.
        """
        server = self._find_server(entry, call, uri)
        origin, seen = entry.origins[0], self._hub.seen_by(call)
        descriptor = server.entry(entry.kind, origin.name)
        assert descriptor is not None
        capabilities = without_tasks(call.capabilities) if server.upstream is not None else call.capabilities
        shown = call.shown or f"{call.server}.{uri or entry.name}"
        inner = replace(call, server=server.name, capabilities=capabilities, shown=shown)
        if entry.kind == "prompt":
            events = prompt_events(server, descriptor, inner, self._conceal)
        else:
            if entry.kind == "template" and excludes_uri(entry, uri):
                raise ResourceNotFound(uri)
            # An app has another URI at its own server.
            own = uri if entry.kind == "template" else origin.name
            found = find_resource(self._catalogue, server, own, call.principal)
            if entry.kind == "template" and not gives_chosen(entry, found):
                raise ResourceNotFound(uri)
            # What the hub itself shows depends on the rights of the caller, also behind a toolset.
            events = resource_events(seen, server, found, inner, self._conceal)
            events = self._with_own_uris(events, (uri, own), server, call.server)
        place = self.count(server, call, shown)
        events = events if place is None else folded(events, ValueFold(False), place=place)
        return share_time_limits(call, inner, events)

    def _with_own_uris(self, events: Events, uris: tuple[str, str], server: Server, toolset: str) -> Events:
        """Yield the events of a read; contents under a URI of another server stand under the one that was read.

        `uris` are the one that was read, and the one that the server has for it.
        """
        reply: Any = None
        try:
            while True:
                event = events.send(reply)
                if isinstance(event, Done) and event.result is not None:
                    event = replace(event, result=self._own_contents(event.result, uris, server, toolset))
                reply = yield event
        except StopIteration:
            return
        finally:
            events.close()

    def _own_contents(
        self, result: Mapping[str, Any], uris: tuple[str, str], server: Server, toolset: str
    ) -> Mapping[str, Any]:
        contents, (uri, own) = result.get("contents"), uris
        if not isinstance(contents, list):
            return result
        try:
            listed = self._catalogue.find(toolset).resources
        except UnknownServer:
            listed = {}

        def is_own(name: Any) -> bool:
            if name == uri or not isinstance(name, str):
                return True
            if name == own:
                return False
            owner = listed.get(name)
            if owner is not None:
                return bool(owner.origins) and owner.origins[0].server == server.name
            return scheme_of(name) not in HUB_SCHEMES

        shown = [
            {**one, "uri": uri} if isinstance(one, Mapping) and not is_own(one.get("uri")) else one for one in contents
        ]
        return {**result, "contents": shown}

    def find(self, entry: Descriptor, call: Call) -> tuple[Server, Descriptor]:
        """Return the server and the entry behind an entry of a toolset, through other toolsets to the last one.

        Raises ToolFailed as `pass_on` does.
        """
        call = replace(call, shown=_shown(entry, call))
        while True:
            server = self._find_server(entry, call)
            found = server.entry(entry.kind, entry.origins[0].name)
            assert found is not None
            if not found.origins:
                return server, found
            entry = found

    def _find_server(self, entry: Descriptor, call: Call, uri: str = "") -> Server:
        """Return the server with the origin of an entry; `uri` is what is read by a template. Raises ToolFailed.

        No sentence names the origin: a caller may use an entry without a right to know what is behind it.
        """
        origin, shown = entry.origins[0], _shown(entry, call)
        seen = self._hub.seen_by(call)
        try:
            self._catalogue.begin(origin.server)
            server = (seen if origin.needs_right else self._catalogue).find(origin.server)
        except UnknownServer as problem:
            raise ToolFailed(f"{shown} is not available now: the server behind it is not served") from problem
        found = server.entry(entry.kind, origin.name)
        is_hidden = server.audience is not None and origin.name in server.audience.hidden_from(call.principal)
        is_denied = seen.forbids(origin.server, origin.name) or (uri != "" and seen.forbids(origin.server, uri))
        if found is None or is_hidden or is_denied or is_denied_by_older_name(seen, found):
            raise ToolFailed(f"{shown} is not available now")
        if found.digest != origin.digest:
            raise ToolFailed(f"{shown} has changed since it was listed: list the tools again")
        if server.version != origin.version or found.origins != entry.origins[1:]:
            # Its approval and its record name what was there when the call began.
            raise ToolFailed(f"{shown} has changed since this call began: send the call again")
        return server

    def _origin_events(self, server: Server, descriptor: Descriptor, call: Call, place: CallPlace | None) -> Events:
        """Return the events of a call of an origin; its result is stored where a resource of its server shows it."""
        events = server.activate(descriptor, call, self._conceal, is_inner=True)
        if descriptor.name in server.tools_with_stored_output:
            fold = Fold()
            return folded(events, fold, partial(self._remember_ending, server, descriptor.name, fold), place)
        return events if place is None else folded(events, ValueFold(False), place=place)

    def _remember_ending(self, server: Server, tool: str, fold: Fold, ending: Ending) -> Ending:
        """Store the result of a call that ends well; return its ending."""
        result = fold.result(ending)
        if not (isinstance(ending, Failed) or result.get("isError")) and "content" in result:
            self._hub.remember(server, tool, result)
        return ending

    def _conceal(self, problem: PatchbayError, call: Call) -> str:
        """Return the failure of an origin for a caller who may not see its server; empty for any other failure."""
        if not problem.names_server:
            return ""
        try:
            self._hub.seen_by(call).find(call.server)
        except UnknownServer:
            log.warning("%s failed: %s", call.shown, problem.message)
            hidden = problem.hidden if isinstance(problem, ServerFailed) else ""
            return f"{call.shown} gave no result: {hidden or 'the server behind it failed'}"
        return ""


def _shown(entry: Descriptor, call: Call) -> str:
    """Return the name of the tool of a toolset that a caller called, which may lead to this entry of another one."""
    return call.shown or f"{call.server}.{entry.name}"
