"""What a kind of server is: one row that says everything a hub asks of it, and the table of these rows.

A filler is a folder of `patchbay/kinds/` whose module `kind.py` has a row `KIND`. To add a kind is to add a folder; a
kind that is elsewhere calls `register`. Code that has to know the kind of a server asks its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath
from pkgutil import iter_modules
from threading import RLock
from typing import Any, Protocol

from patchbay.activation import Handler, Hub
from patchbay.descriptors import Descriptor, Discovery, Problem
from patchbay.errors import ConfigError

FILLERS = "patchbay.kinds"
"""The package whose folders are the kinds that ship with the hub."""

DEFAULT_KIND = "python"
"""The kind of a text without a file name that no kind recognizes (V-F10)."""

CONFIGURATION_KIND = "static"
"""The kind of the definition of a server that is described by a configuration alone."""

Fields = Mapping[str, Any]
"""The fields of a server's configuration."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where the code of a server runs.

    `isolation` is `process`, `inline` (inside the hub), `program` (a mounted one) or `none` (the hub runs nothing of
    it); `memory` in MiB, None where nothing bounds it; `asked` says that a sandbox was asked for, `sandboxed` that
    there is one. `sentence` says all of it.
    """

    isolation: str
    memory: int | None
    asked: bool
    sandboxed: bool
    sentence: str


NOTHING_RUNS = Confinement("none", None, False, False, "nothing of it runs here")


@dataclass(frozen=True)
class EntryContext:
    """What the entries of a configuration refer to: the kind of server, the functions of its definition, its fields.

    `functions` are all functions that entries may name, listed or not, with the names of their parameters in order,
    `streaming` those that stream; `found` is what discovery says of tools, by the function or else by the name;
    `where` is what messages call the configuration.
    """

    server: str
    kind: str
    where: str
    config: Fields = field(default_factory=dict)
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    streaming: frozenset[str] = frozenset()
    found: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def function(self, name: str, path: str) -> str:
        """A function's name. Raises ConfigError, which names the path of the entry, where the definition has none."""
        if name not in self.functions:
            raise ConfigError(self.where, path, f"expected a function of the definition; it has no function {name}")
        return name


class Connections(Protocol):
    """The connections of one hub to other servers."""

    def of(self, mount: Any, /) -> Any:
        """The connection of a mount."""
        ...


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """What a configuration describes: the server's name, its fields, where it comes from, and what it may use.

    `connections` reach mounted servers, `rooms` are the hub's rooms (`patchbay.kinds.room.kind.RoomCaller`).
    """

    name: str
    fields: Fields
    origin: str
    hub: Hub | None = None
    connections: Connections | None = None
    rooms: Any = None


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a whole server. Its title, description and instructions stand behind those of its configuration.

    `fields` are added to the configuration. `upstream` is the connection to a mounted server, `offers` the
    capabilities that it declared, `via` the mounts that its lists come by.
    """

    handler: Handler
    tools: Mapping[str, Descriptor]
    resources: Mapping[str, Descriptor] = field(default_factory=dict)
    templates: Mapping[str, Descriptor] = field(default_factory=dict)
    prompts: Mapping[str, Descriptor] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    title: str | None = None
    description: str = ""
    instructions: str | None = None
    fields: Fields = field(default_factory=dict)
    upstream: Any = None
    offers: Mapping[str, Any] = field(default_factory=dict)
    via: tuple[str, ...] = ()


@dataclass(frozen=True)
class Configuration:
    """What makes a configuration with `"kind": <name>` a whole server, without a definition in a language.

    `own_fields` stand in no other configuration, `fields` are all that may stand in this one; `said_by` ends the
    sentence that refuses others. `check` raises ConfigError for fields (its second argument is where they stand).
    `make_parts` raises ConfigError too. `reaches` says what an operator alone may bring; `by_variable` says that an
    entry of the `mcps` variable is enough; `is_changing` that its lists change while its definition does not.
    """

    own_fields: tuple[str, ...]
    fields: frozenset[str]
    said_by: str
    check: Callable[[Fields, str], None]
    make_parts: Callable[[ConfiguredServer], ServerParts]
    reaches: str
    by_variable: bool = False
    is_changing: bool = False


def _no_functions(source: bytes) -> dict[str, tuple[str, ...]]:
    return {}


def _no_target(ground: EntryContext, name: str, entry: Fields) -> dict[str, Any]:
    raise ConfigError(ground.where, f"tools.{name}", "expected a server with code; this one has nothing to run")


def _runs_nothing(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    return Confinement("none", None, bool(config.get("sandbox", False)), False, NOTHING_RUNS.sentence)


@dataclass(frozen=True)
class Kind:
    """One kind of server.

    * `name` stands in rows of the store; `title` is what pages call a definition; `language` colours it on pages: one
      of the pages' own or any that Pygments knows.
    * `endings` are those of definitions in the watched folder; `recognizes` says whether a text without a file name
      is one. `is_configuration` says that the definition is the server's configuration too.
    * `discover` reads a definition (the server's name, the text) and raises ConfigError for one that is broken.
      `functions` are those that entries of a configuration may name. `tool_target` is the target of a tool that a
      configuration or a transform describes.
    * `make_handler` gets the definition's bytes, their CID, the server's name, its fields, and how the hub runs code
      (`patchbay.kinds.registry.Handlers`); None where a definition of this kind runs nothing.
    * `confine` says how it runs: its fields, the hub's isolation and memory (MiB), and the connection of a mounted
      server. `lacks` names the protections that its processes do not have.
    * `configuration` is what a configuration of this kind is, None for a kind of definitions.
    """

    name: str
    title: str
    language: str = "text"
    endings: tuple[str, ...] = ()
    is_configuration: bool = False
    recognizes: Callable[[bytes], bool] = lambda source: False
    discover: Callable[[str, str], Discovery] | None = None
    functions: Callable[[bytes], Mapping[str, tuple[str, ...]]] = _no_functions
    tool_target: Callable[[EntryContext, str, Fields], dict[str, Any]] = _no_target
    make_handler: Callable[[bytes, str, str, Fields, Any], Handler] | None = None
    confine: Callable[[Fields, str, int, Any], Confinement] = _runs_nothing
    lacks: frozenset[str] = frozenset()
    configuration: Configuration | None = None


_LOCK = RLock()
_KINDS: dict[str, Kind] = {}
_SHIPPED: dict[str, Kind] = {}


def register(kind: Kind) -> Callable[[], None]:
    """Add a kind to the table; answers what takes it away again.

    Raises ValueError where another kind has its name or one of its endings.
    """
    with _LOCK:
        for known in known_kinds():
            shared = {kind.name, *kind.endings} & {known.name, *known.endings}
            if shared:
                raise ValueError(f"a kind of server is registered already for {', '.join(sorted(shared))}")
        _KINDS[kind.name] = kind

    def unregister() -> None:
        with _LOCK:
            _KINDS.pop(kind.name, None)

    return unregister


def known_kinds() -> Sequence[Kind]:
    """Every kind: those that ship with the hub, then those that were registered."""
    if not _SHIPPED:
        with _LOCK:
            # The fillers are above this file, and they are found by their folders, so that none is named here.
            folders = [each.name for each in iter_modules(import_module(FILLERS).__path__) if each.ispkg]
            rows: list[Kind] = [import_module(f"{FILLERS}.{folder}.kind").KIND for folder in folders]
            _SHIPPED.update({row.name: row for row in rows})
    return (*tuple(_SHIPPED.values()), *tuple(_KINDS.values()))


def find_kind(name: object) -> Kind | None:
    """The kind of a name, None where there is none."""
    return next((kind for kind in known_kinds() if kind.name == name), None)


def kind_named(name: str) -> Kind:
    """The kind of a name. Raises ConfigError naming those that there are."""
    found = find_kind(name)
    if found is None:
        names = ", ".join(kind.name for kind in known_kinds())
        raise ConfigError("kind", "", f"expected one of {names}; this is {name!r}")
    return found


def definition_kinds() -> list[Kind]:
    """The kinds of definitions, which are files; the others are described by a configuration alone."""
    return [kind for kind in known_kinds() if kind.endings]


def kind_for_ending(ending: str) -> Kind | None:
    """The kind of the definitions whose files end so, the dot included; None where there is none."""
    return next((kind for kind in known_kinds() if ending in kind.endings), None)


def kind_of_file(file: str) -> Kind | None:
    """The kind of a definition by the name of its file; None for a file that is no definition."""
    return kind_for_ending(PurePath(file).suffix)


def code_endings() -> list[str]:
    """The endings of definitions that have their configuration in a file beside them."""
    return [ending for kind in known_kinds() if not kind.is_configuration for ending in kind.endings]


def recognized_kind(source: bytes) -> Kind | None:
    """The kind that recognizes a text without a file name; None where none does."""
    return next((kind for kind in known_kinds() if kind.recognizes(source)), None)


def configured_kind(fields: object) -> tuple[Kind, Configuration] | None:
    """The kind that a configuration names in its field `kind`, where it describes a whole server."""
    found = find_kind(fields.get("kind")) if isinstance(fields, Mapping) and "kind" in fields else None
    return (found, found.configuration) if found is not None and found.configuration is not None else None
