"""A Server: a named set of descriptors and the handler that runs them. Immutable; a change makes a new one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from patchbay.activation import Call, Conceal, Events, Handler, activate
from patchbay.catalogue.reading.skills import Skill
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.rows import is_room_name
from patchbay.descriptors import SCRIPT_TOOLS, Descriptor, Problem
from patchbay.errors import UnavailableServer, UnknownServer
from patchbay.kind import Audience, Packages, kind_named
from patchbay.pins.enforcement import PinState
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.standing import Standing

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Server:
    """One version of one server.

    `version` is the CID of the manifest (definition, configuration and name together), `definition` and `config_cid`
    are the CIDs of its parts (None without one). `config` is the resolved mcps configuration. Descriptors are by name,
    in listing order; resources and templates are by URI and URI template, skills by name, event types by
    name. `problems` are shown on the
    meta page. A server with `broken` set is not served; the sentence gives the reason. `listing` decides which of
    `tools` a list shows. `upstream` is the connection behind a mounted server, `api` what the hub maintains for a
    mounted HTTP API; `offers` are the capabilities that it declared, `via` are the mounts between it and this hub.
    `pins` are the entries that it lists without approval; `audience` says who sees what of it, None when all see the
    same. `icons` is the value that the configuration or the mounted server has; that of a mounted server is unchecked.
    `replaces` is the definition that a drop-in of the same name replaces. `packages` are those that its definition
    requires. `first_seen` says when the hub first saw a resource or template of a mount (Unix time in seconds).
    """

    name: str
    version: str
    kind: str
    definition: str | None = None
    config_cid: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    description: str = ""
    instructions: str | None = None
    icons: Any = None
    tools: Mapping[str, Descriptor] = field(default_factory=dict)
    resources: Mapping[str, Descriptor] = field(default_factory=dict)
    templates: Mapping[str, Descriptor] = field(default_factory=dict)
    prompts: Mapping[str, Descriptor] = field(default_factory=dict)
    events: Mapping[str, Descriptor] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    handler: Handler | None = None
    enabled: bool = True
    broken: str | None = None
    pinned: bool = False
    origin: str = "boot image"
    timeout: float = 30.0
    progress_timeout: float = 0.0
    streams: bool = False
    listing: Listing = field(default_factory=Listing)
    upstream: StandingConnection | None = None
    api: Standing | None = None
    offers: Mapping[str, Any] = field(default_factory=dict)
    via: tuple[str, ...] = ()
    pins: PinState | None = None
    audience: Audience | None = None
    replaces: str | None = None
    packages: Packages | None = None
    first_seen: Mapping[str, float] = field(default_factory=dict)
    cached: dict[object, dict[Any, Any]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def standing(self) -> Standing | None:
        """What the hub maintains for a mounted server or API; None for any other server."""
        return self.upstream or self.api

    @cached_property
    def is_composed(self) -> bool:
        """Whether its entries are those of other servers, as a configuration chooses them (a toolset)."""
        configuration = kind_named(self.kind).configuration
        return configuration is not None and configuration.compose is not None

    @property
    def tells_of_updates(self) -> bool:
        """Whether subscribers are told of changed resources: a mounted server may not tell them, a room does not."""
        if self.upstream is not None:
            return bool((self.offers.get("resources") or {}).get("subscribe"))
        return not is_room_name(self.name)

    @property
    def announced_as(self) -> str:
        """The name under which changes of this server are announced."""
        return self.name

    @property
    def trouble(self) -> str | None:
        """Why a server that is served cannot do its whole work, as a sentence without its full stop.

        None when it can, and for a server that is disabled or broken.
        """
        if self.broken or not self.enabled:
            return None
        if self.upstream is not None and self.upstream.health.state != "up":
            return self.upstream.health.sentence
        if self.packages is not None and self.packages.state == "making":
            return f"its packages are not ready: {self.packages.sentence}"
        fault = next((problem for problem in self.problems if problem.is_fault), None)
        if fault is not None:
            return f"{fault.reason} (line {fault.line})" if fault.line is not None else fault.reason
        has_entries = self.tools or self.resources or self.templates or self.prompts or self.events
        return None if has_entries or is_room_name(self.name) else "it offers no tools, resources or prompts"

    @cached_property
    def is_mounted(self) -> bool:
        """Whether somebody else than the operator chooses what it lists: a mounted server, or a room."""
        return self.upstream is not None or is_room_name(self.name)

    @cached_property
    def is_search_active(self) -> bool:
        """Whether `search_tools` and `call_tool` replace the list of tools."""
        return self.listing.is_search_active(self.found_tools)

    @cached_property
    def has_scripts(self) -> bool:
        """Whether `find_tools` and `run_script` can be called."""
        return self.listing.has_scripts(self.found_tools)

    @cached_property
    def has_front_tools(self) -> bool:
        """Whether tools of the hub stand before those of the server: those of a search, or of scripts."""
        return self.is_search_active or self.has_scripts

    def answers_before(self, name: str) -> bool:
        """Whether a tool of the hub answers a call of this name: one of scripts, or any name where a search is active,
        because the call may come through `call_tool`.
        """
        return self.is_search_active or (self.has_scripts and name in SCRIPT_TOOLS)

    @property
    def found_tools(self) -> Mapping[str, Descriptor]:
        """The tools that a list shows or a search finds; each one in `tools` can be called all the same."""
        return self.tools

    @property
    def listed_skills(self) -> Mapping[str, Skill]:
        """The skills that a list shows."""
        return self.skills

    @cached_property
    def visible_tools(self) -> Mapping[str, Descriptor]:
        """The tools that a list shows."""
        return self.listing.visible(self.found_tools)

    def listed(self, kind: str) -> Mapping[str, Descriptor]:
        """Return what a list of `tools`, `resources`, `templates`, `prompts` or `events` shows."""
        entries: Mapping[str, Descriptor] = self.visible_tools if kind == "tools" else getattr(self, kind)
        return entries

    def entry(self, kind: str, key: str) -> Descriptor | None:
        """Return a tool, resource (a file of a skill included), template or prompt by its name or URI, or None."""
        if kind == "resource":
            return self.resources.get(key) or self.skill_files.get(key)
        groups = {"tool": self.tools, "template": self.templates, "prompt": self.prompts}
        return groups[kind].get(key)

    @cached_property
    def skill_files(self) -> dict[str, Descriptor]:
        """Every file of every skill by its URI; only each SKILL.md is also among the resources."""
        return {uri: file.resource for skill in self.skills.values() for uri, file in skill.files.items()}

    @cached_property
    def is_settled(self) -> bool:
        """Whether its lists never change: a pinned version without a part that is read anew."""
        configuration = kind_named(self.kind).configuration
        if self.via or (configuration is not None and configuration.is_changing):
            return False
        return self.pinned and not any(key.endswith("_transform_cid") for key in self.config)

    @cached_property
    def tools_with_stored_output(self) -> frozenset[str]:
        """The tools whose last output a resource shows."""
        targets = [found.target for found in self.resources.values()]
        return frozenset(target["last_output_of"] for target in targets if "last_output_of" in target)

    def activate(
        self, descriptor: Descriptor, call: Call, conceal: Conceal | None = None, is_inner: bool = False
    ) -> Events:
        """Run one descriptor: an iterator of events with exactly one ending.

        `conceal` and `is_inner` as in `activation.activate`.
        """
        assert self.handler is not None, f"{self.name} has no handler for {descriptor.name}"
        return activate(self.handler, call, bool(self.config.get("mask_errors", False)), conceal, is_inner)


class ServerCache(Generic[Key, Value]):
    """Values that one module computes once for each version of a server, and that are released with it. Thread-safe.

    Each module that caches something owns one of these; no other module sees its values.
    """

    def get(self, server: Server, key: Key, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, computed at the first request. Two threads get the same value."""
        values: dict[Key, Value] | None = server.cached.get(self)
        if values is None:
            values = server.cached.setdefault(self, {})
        if key not in values:
            values.setdefault(key, compute())
        return values[key]


class ServerTable(NamedTuple):
    """All servers of a hub by name, and those of them that it serves; one value, so that readers see one moment."""

    every: Mapping[str, Server]
    served: Mapping[str, Server]

    @classmethod
    def of(cls, every: Mapping[str, Server]) -> ServerTable:
        """Return the table of these servers."""
        return cls(every, {name: one for name, one in every.items() if one.enabled and not one.broken})


def unknown_server(name: str, known: Iterable[str]) -> UnknownServer:
    """Return the error for a name without a server, with the similar ones of the known names."""
    close = get_close_matches(name, known, 3)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return UnknownServer(f"there is no server {name!r:.140}{hint}")


def unavailable_server(server: Server) -> UnavailableServer:
    """Return the error for a server that is disabled or broken."""
    return UnavailableServer(f"the server {server.name} is not available: {server.broken or 'it is disabled'}")
