"""Descriptors: one tool, resource, resource template, prompt or event type as clients see it.

`wire` is the JSON object of the newest revision, without nulls; `target` says how to run it and never leaves the hub.
`protocol/translate.py` removes the fields that older revisions do not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import orjson

from patchbay.cid import cid_of

Kind = Literal["tool", "resource", "template", "prompt", "event"]
Source = Literal["static", "transform", "discovered", "upstream"]

NAME = r"[A-Za-z0-9_.-]{1,128}"
"""Pattern of the names of servers and tools (MCP specification 2025-11-25, server/tools, tool names)."""

SCRIPT_TOOLS = ("find_tools", "run_script")
"""The tools by which the hub runs scripts; no saved script has one of these names."""

ACTIVITY = "activity"
"""The field of a configuration, and the member of a target, that says what records keep of a call."""

ACTIVITY_MODES = ("none", "digest", "keep")
"""Its values, from the least to the most."""

RENAMED_FROM = "renamed_from"
"""The member of the target of a tool that a mount renames: the server and the name there, by which denials hold too."""

EXCLUDED = "excluded"
"""The member of the target of a template of a toolset with the patterns that the toolset excludes."""

EXCLUDED_TEMPLATES = "excluded_templates"
"""The member of the target of a template of a toolset with the templates of its origin that the toolset excludes."""

CHOSEN_TEMPLATES = "chosen_templates"
"""The member of the target of a template of a toolset with the templates of its origin that the toolset has."""

MAX_SEARCHED_DEPTH = 32
"""Limit on the depth of the search for secrets in a schema; a deeper schema counts as secret."""

APP_PATH = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.html", re.ASCII)
"""Pattern of the path of an app: an HTML file below the folder of its definition."""


def app_uri(path: str) -> str:
    """Return the URI by which the hub serves the file of an app (SEP-1865)."""
    return f"ui://{path}"


class Origin(NamedTuple):
    """The entry of another server behind an entry of a toolset.

    `version` is that of the server and `digest` that of the entry's descriptor when the entry was made.
    `needs_right` says that the caller needs the right on the origin too.
    """

    server: str
    name: str
    version: str
    digest: str
    needs_right: bool = False

    def to_json(self) -> dict[str, str]:
        """Return the server, its version, and the name and the digest of the entry as a JSON object."""
        named = {"name": self.name, "server": self.server, "tool": self.digest, "version": self.version}
        return {key: encodable(value) for key, value in named.items()}


@dataclass(frozen=True)
class Descriptor:
    """One descriptor: the JSON object for clients (`wire`), how it runs (`target`), and its origin (`source`).

    Targets of a tool or prompt: `{"function": name}`, `{"argv": [...]}` (shell), `{"messages": [...]}` (prompt).
    Targets of a resource: one of `text`, `blob` (base64), `cid`, `variable`, `function`, `last_output_of`.
    A template's target is `{"function": name}`, which gets the URI's variables as arguments. The target of an event
    type is empty, or names its source: `{"source": {...}}`.
    `belongs_to` is the server and the name on that server, in the list of all servers' tools. `other_names` are those
    that patterns match there too: the whole name of a tool whose name is cut, and its name in earlier versions.
    `origins` are the entries behind an entry of a toolset: first the one that it names, then the one behind that.
    """

    kind: Kind
    name: str
    wire: Mapping[str, Any]
    target: Mapping[str, Any] = field(default_factory=dict)
    source: Source = "static"
    belongs_to: tuple[str, str] | None = None
    other_names: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names that patterns match: its own and, in the list of all servers' tools, `server.tool` and others."""
        return (self.name, ".".join(self.belongs_to), *self.other_names) if self.belongs_to else (self.name,)

    @cached_property
    def digest(self) -> str:
        """The CID of `wire` in canonical JSON: it changes exactly when `wire` changes."""
        return cid_of(orjson.dumps(self.wire, option=orjson.OPT_SORT_KEYS))

    @cached_property
    def origins_json(self) -> str:
        """What is behind an entry of a toolset as the text of a JSON array; empty for any other entry."""
        return orjson.dumps([one.to_json() for one in self.origins]).decode() if self.origins else ""

    @cached_property
    def is_for_models(self) -> bool:
        """Whether a tool is for models: `_meta.ui.visibility` names `model`, or is absent (SEP-1865, visibility)."""
        return self._is_visible_to("model")

    @cached_property
    def is_for_apps(self) -> bool:
        """Whether apps may call a tool: `_meta.ui.visibility` names `app`, or is absent (SEP-1865, visibility)."""
        return self._is_visible_to("app")

    def _is_visible_to(self, reader: Literal["model", "app"]) -> bool:
        meta = self.wire.get("_meta")
        ui = meta.get("ui") if isinstance(meta, Mapping) else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list) or reader in visibility

    @property
    def read_only(self) -> bool:
        """Whether a tool is known to change nothing. An annotation of an upstream is only a hint, so it gives False."""
        if self.source == "upstream":
            return False
        annotations = self.wire.get("annotations") or {}
        return bool(annotations.get("readOnlyHint", False))

    @cached_property
    def has_secret_arguments(self) -> bool:
        """Whether the schema of a tool marks an argument as secret: `writeOnly`, or the format `password`."""
        return self.kind == "tool" and _has_secrets(self.wire.get("inputSchema"), MAX_SEARCHED_DEPTH)

    @cached_property
    def is_repeatable(self) -> bool:
        """Whether a tool says that a second call with the same arguments does no harm (ToolAnnotations)."""
        hints = self.wire.get("annotations")
        return isinstance(hints, Mapping) and (hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True)

    @cached_property
    def is_destructive(self) -> bool:
        """Whether a tool may destroy something: unless it only reads, or says that it does not.

        This is the default of the specification (ToolAnnotations). A mounted server's annotations count only where
        they say yes.
        """
        annotations = self.wire.get("annotations") or {}
        is_additive = annotations.get("destructiveHint") is False and self.source != "upstream"
        return not (self.read_only or is_additive)


def _has_secrets(schema: Any, depth: int) -> bool:
    if depth == 0:
        return True
    if isinstance(schema, Mapping):
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            return True
        return any(_has_secrets(each, depth - 1) for each in schema.values())
    return isinstance(schema, list) and any(_has_secrets(each, depth - 1) for each in schema)


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why an entry is not listed or does not work, as a sentence for the meta page.

    `where` names the function, the transform or the place in a configuration; `line` is the line in the definition.
    `fix` is what solves the problem: lines for the definition, or commands. `is_fault` means that the server cannot
    do its work until the author or the operator changes something; other problems are about single entries.
    """

    where: str
    reason: str
    line: int | None = None
    fix: str | None = None
    is_fault: bool = False


@dataclass(frozen=True)
class Discovery:
    """The result of reading a definition: its descriptors, its problems and its description.

    `imports` are the modules of others that it imports in any case, each with its first line. `functions` maps each
    function that entries of a configuration may name, listed or not, to its parameter names in order.
    """

    descriptors: tuple[Descriptor, ...] = ()
    problems: tuple[Problem, ...] = ()
    description: str = ""
    imports: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which UTF-8 and JSON cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
