"""The kinds of servers: the type `Kind`, whose rows hold everything that depends on the kind, and the table of rows.

A kind is a folder of `patchbay/kinds/` whose module `kind.py` has a row `KIND`. To add a kind, add a folder; a kind
from another package calls `register`. Code that depends on the kind of a server uses its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
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
"""The kind of a text without a file name that no kind recognizes."""

CONFIGURATION_KIND = "static"
"""The kind of a server that only a configuration describes."""

Fields = Mapping[str, Any]
"""The fields of a server's configuration."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where the code of a server runs.

    `isolation` is `process`, `inline` (inside the hub), `program` (a mounted program) or `none` (the server has no code
    in the hub); `memory` is a limit in MiB, None without a limit; `asked` says that the configuration asks for a
    sandbox, `sandboxed` that the server has one. `sentence` says all of this for people.
    """

    isolation: str
    memory: int | None
    asked: bool
    sandboxed: bool
    sentence: str


NOTHING_RUNS = Confinement("none", None, False, False, "the hub runs no code of this server")


class Packages(Protocol):
    """The packages that a definition requires: they are absent, being made, ready or failed.

    `sentence` describes the state; `data` returns it as a JSON object.
    """

    @property
    def state(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    def data(self) -> dict[str, Any]: ...

    def start(self, now: bool = False) -> None:
        """Begin to install the packages, unless they are there; `now` also soon after a failure."""
        ...


@dataclass(frozen=True, slots=True)
class Examination:
    """What a definition needs on this machine: its problems here, and its packages (None without requirements)."""

    problems: tuple[Problem, ...] = ()
    packages: Packages | None = None


@dataclass(frozen=True)
class EntryContext:
    """The context that entries of a configuration refer to: the kind of server, its functions, its fields.

    `functions` maps each function that entries may name, listed or not, to its parameter names in order; `streaming`
    names the functions that stream; `found` maps a function, or else a tool, to the descriptor fields that discovery
    found; `where` is the name of the configuration in messages.
    """

    server: str
    kind: str
    where: str
    config: Fields = field(default_factory=dict)
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    streaming: frozenset[str] = frozenset()
    found: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def function(self, name: str, path: str) -> str:
        """Return the name if the definition has this function. Raises ConfigError with the path of the entry if not."""
        if name not in self.functions:
            raise ConfigError(self.where, path, f"expected a function of the definition; it has no function {name}")
        return name


class Connections(Protocol):
    """The connections of one hub to other servers."""

    def of(self, mount: Any, /) -> Any:
        """Return the connection of a mount."""
        ...


class Audience(Protocol):
    """Who sees what of a server that shows different entries to different callers."""

    digest: str
    """A text that changes when somebody may see something else; empty when all see the same."""

    @property
    def is_needed(self) -> bool:
        """Whether this server, or another one with an audience, hides something from some caller now."""
        ...

    def hidden_from(self, principal: str) -> frozenset[str]:
        """Return the names and URIs of the entries that are hidden from a principal now."""
        ...

    def messages(self, principal: str | None, place: str) -> Any:
        """Return the source (`patchbay.occurrences.sources.EventSource`) of what is said there, for a principal.

        None is the operator; `place` names the event type in cursors.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A server that a configuration describes: its name, its fields, its origin, and the services that it may use.

    `connections` reach mounted servers, `rooms` are the hub's rooms (`patchbay.upstreams.room_caller.RoomCaller`).
    """

    name: str
    fields: Fields
    origin: str
    hub: Hub | None = None
    connections: Connections | None = None
    rooms: Any = None


class OriginServer(Protocol):
    """A server whose entries a toolset may choose (`patchbay.catalogue.servers.server.Server`)."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def tools(self) -> Mapping[str, Descriptor]: ...

    @property
    def resources(self) -> Mapping[str, Descriptor]: ...

    @property
    def templates(self) -> Mapping[str, Descriptor]: ...

    @property
    def prompts(self) -> Mapping[str, Descriptor]: ...

    @property
    def skills(self) -> Mapping[str, Any]: ...

    @property
    def config(self) -> Fields: ...

    @property
    def timeout(self) -> float: ...

    @property
    def progress_timeout(self) -> float: ...

    @property
    def via(self) -> tuple[str, ...]: ...

    @property
    def audience(self) -> Audience | None: ...


class FindUriOwners(Protocol):
    """Decides which server has each URI and each URI template of several servers, as the catalogue does for all."""

    def __call__(
        self, resources: Mapping[str, Sequence[str]], templates: Mapping[str, Sequence[str]], /
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the server of each URI, and of each template in the order in which they are tried.

        The arguments are the URIs and the templates by server; one that no server may have is left out.
        """
        ...


def _no_owners(
    resources: Mapping[str, Sequence[str]], templates: Mapping[str, Sequence[str]], /
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return {}, {}


@dataclass(frozen=True, slots=True)
class Composed:
    """A server that is made of entries of others: its name, its fields, and the servers that it may choose from.

    `servers` are served, by name; those in `named_only` are toolsets, which only a name without wildcards chooses.
    `is_past` says that it is an earlier version, whose author may have taken back since what it gives.
    `find_uri_owners` decides between servers that have one URI.
    """

    name: str
    fields: Fields
    servers: Mapping[str, OriginServer]
    named_only: frozenset[str] = frozenset()
    is_past: bool = False
    find_uri_owners: FindUriOwners = _no_owners


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a server. The configuration overrides its title, description and instructions.

    `icons` is the unchecked value of its icons. `fields` extend the configuration. `upstream` is the connection to a
    mounted server, `api` what the hub maintains for a mounted HTTP API; `offers` holds the capabilities that the server
    declared, `via` the mounts that its lists pass through, `pins` the entries that are not approved,
    `audience` who sees what of it (None when all see the same), `first_seen` when the hub first saw a resource or
    template (Unix time in seconds), `skills` the skills of a server that is made of others. `handler_of` makes its
    handler where calls of the server need the server itself; None where `handler` is enough.
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
    icons: Any = None
    fields: Fields = field(default_factory=dict)
    upstream: Any = None
    api: Any = None
    offers: Mapping[str, Any] = field(default_factory=dict)
    via: tuple[str, ...] = ()
    pins: Any = None
    audience: Audience | None = None
    events: Mapping[str, Descriptor] = field(default_factory=dict)
    first_seen: Mapping[str, float] = field(default_factory=dict)
    skills: Mapping[str, Any] = field(default_factory=dict)
    handler_of: Callable[[OriginServer], Handler] | None = None


@dataclass(frozen=True)
class Configuration:
    """How a configuration with `"kind": <name>` describes a whole server, without a definition in a language.

    `own_fields` are fields of this kind only; `fields` are all fields that such a configuration may have; `title` names
    such a server in the error message for other fields. `check` raises ConfigError for wrong fields (its second
    argument names the file). `make_parts` raises ConfigError too. `reaches` names the access that only an operator may
    give; `by_variable` says that an entry of the `mcps` variable is enough; `is_changing` says that the lists may
    change without a new definition. `required` is the field that each of them has. `recognizes` says whether
    fields without `kind` describe such a server in the form of another program, which `translate` turns into fields
    (its second argument names the file; raises ConfigError). A server with `compose` is made of entries of others: it
    gets its parts by `compose`, again whenever a server that its `patterns` cover has changed; `make_parts` returns
    what it is without them.
    """

    own_fields: tuple[str, ...]
    fields: frozenset[str]
    title: str
    check: Callable[[Fields, str], None]
    make_parts: Callable[[ConfiguredServer], ServerParts]
    reaches: str
    by_variable: bool = False
    is_changing: bool = False
    required: str = ""
    recognizes: Callable[[object], bool] = lambda fields: False
    translate: Callable[[Fields, str], dict[str, Any]] | None = None
    compose: Callable[[Composed], ServerParts] | None = None
    patterns: Callable[[Fields], Sequence[str]] = lambda fields: ()


def _no_target(context: EntryContext, name: str, entry: Fields) -> dict[str, Any]:
    raise ConfigError(context.where, f"tools.{name}", "expected a server with code; this server has nothing to run")


def _needs_nothing(source: bytes, name: str, config: Fields, found: Discovery, using: Any) -> Examination:
    return Examination()


def _runs_nothing(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    return Confinement("none", None, bool(config.get("sandbox", False)), False, NOTHING_RUNS.sentence)


@dataclass(frozen=True)
class Kind:
    """One kind of server.

    * `name` is the kind in rows of the store; `title` is the word for a definition on pages; `language` selects the
      syntax colours: a language of the pages or of Pygments.
    * `endings` are the file endings of definitions in the watched folder; `recognizes` says whether a text without a
      file name is a definition of this kind. `is_configuration` says that the definition is also the configuration.
    * `discover` reads a definition (the server's name, the text) and raises ConfigError for an invalid definition.
      `tool_target` returns the target of a tool that a configuration or a transform describes.
    * `return_line` returns the line of a definition (its bytes) from which the result of a target comes, None without.
    * `app_files` returns the paths of the HTML files that a definition names as its apps.
    * `examine` says what a definition needs on this machine, from its bytes, the server's name, its fields, its
      discovery and the runner of the hub. Raises ConfigError.
    * `make_handler` takes the definition's bytes, their CID, the server's name, its fields, and the runner of the hub
      (`patchbay.kinds.registry.Handlers`); None for a kind without code.
    * `confine` returns where the code runs, from the fields, the hub's isolation and memory (MiB), and the connection
      of a mounted server. `lacks` names the protections that its processes do not have.
    * `configuration` describes configurations of this kind; None for a kind of definitions.
    """

    name: str
    title: str
    language: str = "text"
    endings: tuple[str, ...] = ()
    is_configuration: bool = False
    recognizes: Callable[[bytes], bool] = lambda source: False
    discover: Callable[[str, str], Discovery] | None = None
    tool_target: Callable[[EntryContext, str, Fields], dict[str, Any]] = _no_target
    return_line: Callable[[bytes, Mapping[str, Any]], int | None] = lambda source, target: None
    app_files: Callable[[bytes], tuple[str, ...]] = lambda source: ()
    make_handler: Callable[[bytes, str, str, Fields, Any], Handler] | None = None
    examine: Callable[[bytes, str, Fields, Discovery, Any], Examination] = _needs_nothing
    confine: Callable[[Fields, str, int, Any], Confinement] = _runs_nothing
    lacks: frozenset[str] = frozenset()
    configuration: Configuration | None = None


_LOCK = RLock()
_KINDS: dict[str, Kind] = {}
_SHIPPED: dict[str, Kind] = {}


def register(kind: Kind) -> Callable[[], None]:
    """Add a kind to the table; return a function that removes it.

    Raises ValueError if another kind has its name or one of its endings.
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
    """Return every kind: first the kinds that ship with the hub, then the registered kinds."""
    if not _SHIPPED:
        with _LOCK:
            # The kinds are on a higher floor than this file. Finding them by folder needs no import of them here.
            folders = [each.name for each in iter_modules(import_module(FILLERS).__path__) if each.ispkg]
            rows: list[Kind] = [import_module(f"{FILLERS}.{folder}.kind").KIND for folder in folders]
            _SHIPPED.update({row.name: row for row in rows})
    return (*tuple(_SHIPPED.values()), *tuple(_KINDS.values()))


def find_kind(name: object) -> Kind | None:
    """Return the kind with this name, or None."""
    if not _SHIPPED:
        known_kinds()
    return _SHIPPED.get(name) or _KINDS.get(name) if isinstance(name, str) else None


def kind_named(name: str) -> Kind:
    """Return the kind with this name. Raises ConfigError with the names of all kinds."""
    found = find_kind(name)
    if found is None:
        names = ", ".join(kind.name for kind in known_kinds())
        raise ConfigError("kind", "", f"expected one of {names}; this is {name!r}")
    return found


def definition_kinds() -> list[Kind]:
    """Return the kinds whose definitions are files; only a configuration describes a server of another kind."""
    return [kind for kind in known_kinds() if kind.endings]


def kind_for_ending(ending: str) -> Kind | None:
    """Return the kind of definitions with this file ending, the dot included; or None."""
    return next((kind for kind in known_kinds() if ending in kind.endings), None)


def kind_of_file(file: str) -> Kind | None:
    """Return the kind of a definition by its file name; None for a file that is not a definition."""
    return kind_for_ending(PurePath(file).suffix)


def code_endings() -> list[str]:
    """Return the file endings of definitions whose configuration is a separate file beside them."""
    return [ending for kind in known_kinds() if not kind.is_configuration for ending in kind.endings]


def recognized_kind(source: bytes) -> Kind | None:
    """Return the first kind that recognizes a text without a file name, or None."""
    return next((kind for kind in known_kinds() if kind.recognizes(source)), None)


def configured_kind(fields: object) -> tuple[Kind, Configuration] | None:
    """Return the kind of server that a configuration alone describes, or None.

    It is the kind in the field `kind`, or the one that recognizes the fields of another program.
    """
    if not isinstance(fields, Mapping):
        return None
    if "kind" in fields:
        found = find_kind(fields["kind"])
        return (found, found.configuration) if found is not None and found.configuration is not None else None
    described = ((kind, kind.configuration) for kind in known_kinds() if kind.configuration is not None)
    return next((one for one in described if one[1].recognizes(fields)), None)


def check_names(value: object, possible: frozenset[str], where: str) -> None:
    """Check that a configuration has only `possible` fields, those of all kinds. Raises ConfigError.

    The message names the closest field and the fields of this kind of server alone.
    """
    unknown = sorted(set(value) - possible) if isinstance(value, Mapping) else []
    if not isinstance(value, Mapping) or not unknown:
        return
    found = configured_kind(value)
    if found is None:
        own = {name for kind in known_kinds() if kind.configuration for name in kind.configuration.own_fields}
        known, title, required = sorted(possible - own), "this kind of server", ""
    else:
        known, title, required = sorted(found[1].fields), found[1].title, found[1].required
    # Where no field resembles the name, the field that must be there is what it most likely means.
    missing = [required] if required and required not in value else []
    hints = {name: (get_close_matches(name, known, 1) or missing)[:1] for name in unknown}
    named = ", ".join(f"{name} (did you mean {close[0]}?)" if close else name for name, close in hints.items())
    raise ConfigError(where, "", f"unknown field {named}; the fields of {title} are {', '.join(known)}")


def check_fields(value: Fields, where: str) -> None:
    """Check that a configuration has only fields of its kind of server. Raises ConfigError."""
    found = configured_kind(value)
    for kind in known_kinds():
        if kind.configuration is not None and (found is None or kind is not found[0]):
            for name in kind.configuration.own_fields:
                if name in value and (found is None or name not in found[1].own_fields):
                    raise ConfigError(where, name, f'expected it only beside "kind": "{kind.name}"')
    if found is None:
        return
    configuration = found[1]
    for name in value:
        if name not in configuration.fields:
            known, required = ", ".join(sorted(configuration.fields)), configuration.required
            hint = f" (did you mean {required}?)" if required and required not in value else ""
            raise ConfigError(where, name, f"not allowed for {configuration.title}{hint}; allowed: {known}")
    configuration.check(value, where)
