"""The configuration of a toolset as a value: which entries of other servers it chooses, and how it shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchbay.cid import is_cid
from patchbay.config import LISTING_MEMBERS
from patchbay.descriptors import SCRIPT_TOOLS
from patchbay.errors import ConfigError
from patchbay.patterns.entries import EVERYTHING
from patchbay.patterns.uri_spellings import covers_any_spelling
from patchbay.python_functions.script_texts import CID_PREFIX, is_script_path
from patchbay.shaping.tools import AS_IT_IS, ToolShape, check_shape, parse_shape

CALLER = "caller"
"""The value of `rights` with which a caller needs the right on each origin too."""

_SERVER_PATTERN = re.compile(r"[A-Za-z0-9_-]+")
"""What the part of a pattern before its first dot may have besides wildcards."""

_URI_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+-]*:")
"""How a pattern of URIs begins: a scheme without a dot, which would end the name of a server."""

_WILDCARDS = re.compile(r"\[[^\]]+\]|[*?]")


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool that the configuration names: its origin as `server.tool`, and what it shows in place of the origin's.

    A tool that is a script has no origin: `script` is its text, or `cid://` and the CID of a text that the hub lacks.
    """

    origin: str
    shape: ToolShape = AS_IT_IS
    script: str = ""


@dataclass(frozen=True, slots=True)
class Toolset:
    """The fields of a toolset. `needs_right` says that a caller needs the right on the origin of what it calls too.

    `resources` are patterns of URIs, or of entries by server; they also choose templates and skills.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tools: Mapping[str, NamedTool] = field(default_factory=dict)
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    needs_right: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the entries that it may choose."""
        tools = (*self.include, *(one.origin for one in self.tools.values() if one.origin))
        # A pattern of URIs may choose resources of any server.
        resources = tuple(EVERYTHING if is_uri_pattern(one) else one for one in self.resources)
        return (*tools, *resources, *self.prompts)


def excluded_patterns(toolset: Toolset) -> list[str]:
    """Return the patterns of `exclude` as patterns of entries; one of URIs is about every server."""
    return [f"*.{pattern}" if is_uri_pattern(pattern) else pattern for pattern in toolset.exclude]


def is_excluded(toolset: Toolset, server: str, key: str) -> bool:
    """Whether a toolset excludes a resource or a template of a server."""
    return any(covers_any_spelling(pattern, server, key) for pattern in excluded_patterns(toolset))


def parse_fields(fields: Mapping[str, Any]) -> Toolset:
    """Return the toolset that checked fields describe."""
    return Toolset(
        tuple(fields.get("include", ())),
        tuple(fields.get("exclude", ())),
        {name: _named_tool(given) for name, given in fields.get("tools", {}).items()},
        tuple(fields.get("resources", ())),
        tuple(fields.get("prompts", ())),
        fields.get("rights") == CALLER,
    )


def patterns_of(fields: Mapping[str, Any]) -> Sequence[str]:
    """Return the patterns of the entries that a toolset with these fields may choose."""
    return parse_fields(fields).patterns


def _named_tool(given: str | Mapping[str, Any]) -> NamedTool:
    if isinstance(given, str):
        return NamedTool(given)
    return NamedTool(given.get("from", ""), parse_shape(given), given.get("script", ""))


def check_fields(fields: Mapping[str, Any], where: str) -> None:
    """Check the fields that make a toolset. Raises ConfigError with the place of the first that is wrong."""
    toolset = parse_fields(fields)
    if not toolset.patterns and not any(one.script for one in toolset.tools.values()):
        sentence = 'expected "include", "tools", "resources" or "prompts": a toolset chooses entries of other servers'
        raise ConfigError(where, "", sentence)
    for member in LISTING_MEMBERS:
        if member in fields and member in fields.get("listing", {}):
            raise ConfigError(
                where, f"listing.{member}", f"expected it once: the field {member} of the toolset says it"
            )
    for member in ("include", "exclude", "resources", "prompts"):
        for number, pattern in enumerate(fields.get(member, ())):
            if member not in ("resources", "exclude") or not is_uri_pattern(pattern):
                _check_pattern(pattern, where, f"{member}.{number}")
    for name, tool in toolset.tools.items():
        if tool.script:
            _check_script(name, tool.script, where)
            check_shape(fields["tools"][name], where, f"tools.{name}")
            continue
        path = f"tools.{name}" if isinstance(fields["tools"][name], str) else f"tools.{name}.from"
        _check_pattern(tool.origin, where, path)
        if "." not in tool.origin or _WILDCARDS.search(tool.origin):
            raise ConfigError(where, path, f"expected one tool, such as git.git_log; this is {tool.origin!r:.80}")
        if not isinstance(fields["tools"][name], str):
            check_shape(fields["tools"][name], where, f"tools.{name}")


def _check_script(name: str, script: str, where: str) -> None:
    """Check a tool that is a script, without its text. Raises ConfigError."""
    if name in SCRIPT_TOOLS:
        sentence = "expected another name: the hub runs scripts by a tool of this name"
        raise ConfigError(where, f"tools.{name}", sentence)
    if script.startswith(CID_PREFIX) and not is_cid(script.removeprefix(CID_PREFIX)):
        raise ConfigError(where, f"tools.{name}.script", f"expected a CID after cid://; got {script!r:.80}")
    if is_script_path(script):
        sentence = f"expected the text of a script, or cid:// and its CID; {script[:80]} is a path, which only a file"
        raise ConfigError(where, f"tools.{name}.script", f"{sentence} of the servers folder may name")


def is_uri_pattern(pattern: str) -> bool:
    """Whether a pattern begins with a literal scheme, as `notes://*` does: it is about URIs of whatever server."""
    return _URI_PATTERN.match(pattern) is not None


def _check_pattern(pattern: str, where: str, path: str) -> None:
    """Check that a pattern can cover an entry of some server. Raises ConfigError with the pattern that is meant."""
    server, dot, entry = pattern.partition(".")
    if _SERVER_PATTERN.fullmatch(_WILDCARDS.sub("x", server)) and (not dot or entry):
        return
    meant = pattern.strip("/").removeprefix("mcp/").replace("/", ".", 1)
    is_better = meant != pattern and _SERVER_PATTERN.fullmatch(_WILDCARDS.sub("x", meant.partition(".")[0]))
    hint = f" (did you mean {meant}?)" if is_better else ""
    raise ConfigError(
        where, path, f"expected a pattern such as git, git.git_log, git.* or *.list_*; got {pattern!r:.80}{hint}"
    )
