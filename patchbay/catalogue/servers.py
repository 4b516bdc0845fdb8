"""A Server: a named set of descriptors and the handler that runs them. Immutable; a change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from patchbay.activation import Call, Events, Handler, activate
from patchbay.catalogue.listing import Listing
from patchbay.catalogue.reading.skills import Skill
from patchbay.descriptors import Descriptor, Problem
from patchbay.kind import kind_named
from patchbay.kinds.mount.standing_connection import StandingConnection


@dataclass(frozen=True)
class Server:
    """One version of one server.

    `version` is the CID of the manifest (definition, configuration and name together), `definition`
    and `config_cid` the CIDs of its parts (None where it has none). `config` is the resolved mcps
    configuration. Descriptors are by name, in the order in which they are listed; resources and
    templates are by URI and URI template, skills by name. `problems` are shown on the meta page. A server with
    `broken` set is not served; the sentence says why. `listing` decides what a list shows of `tools`. `rendered`
    holds lists as bytes, made once for each revision. `upstream` is the server behind a mounted one, `offers` the
    capabilities that it declared, `via` the mounts that its lists come by. `replaces` is the definition of the server
    that a drop-in of the same name stands before.
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
    tools: Mapping[str, Descriptor] = field(default_factory=dict)
    resources: Mapping[str, Descriptor] = field(default_factory=dict)
    templates: Mapping[str, Descriptor] = field(default_factory=dict)
    prompts: Mapping[str, Descriptor] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    handler: Handler | None = None
    enabled: bool = True
    broken: str | None = None
    pinned: bool = False
    origin: str = "boot image"
    timeout: float = 30.0
    streams: bool = False
    listing: Listing = field(default_factory=Listing)
    upstream: StandingConnection | None = None
    offers: Mapping[str, Any] = field(default_factory=dict)
    via: tuple[str, ...] = ()
    replaces: str | None = None
    rendered: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def heard(self) -> str:
        """The name under which changes of this server are told."""
        return self.name

    @cached_property
    def searches(self) -> bool:
        """Whether `search_tools` and `call_tool` are served in front of the tools."""
        return self.listing.searches(self.tools)

    @cached_property
    def shown(self) -> Mapping[str, Descriptor]:
        """The tools that a list shows; every one of `tools` can be called all the same."""
        return self.listing.shown(self.tools)

    @cached_property
    def skill_files(self) -> dict[str, Descriptor]:
        """Every file of every skill by its URI; of these only each SKILL.md is among the resources."""
        return {uri: file.resource for skill in self.skills.values() for uri, file in skill.files.items()}

    @cached_property
    def settled(self) -> bool:
        """Whether its lists never change: a pinned version, and none of them made by a program when it is read."""
        configuration = kind_named(self.kind).configuration
        if self.via or (configuration is not None and configuration.is_changing):
            return False
        return self.pinned and not any(key.endswith("_transform_cid") for key in self.config)

    @cached_property
    def remembered(self) -> frozenset[str]:
        """The tools whose last output one of the resources shows."""
        targets = [found.target for found in self.resources.values()]
        return frozenset(target["last_output_of"] for target in targets if "last_output_of" in target)

    def activate(self, descriptor: Descriptor, call: Call) -> Events:
        """Run one descriptor: an iterator of events with exactly one ending."""
        assert self.handler is not None, f"{self.name} has nothing that runs {descriptor.name}"
        return activate(self.handler, call, mask=bool(self.config.get("mask_errors", False)))
