"""The discovery contract: the methods of every kind of service, so that one set of commands serves all of them.

A source handles one kind of service (`mcp`, `http`, `objects`, or an installed one): it reads and writes records, lists
what a service offers (`inspects`, `explores`), compares a service with a profile (`validates`), and computes the
version of its contract (`versions`); JN gave these methods their names. `Sources` finds the source of an address: by
the profile behind `@name`, by the scheme of the address, or by asking each source. A package adds a source under the
entry point group `patchbay.sources`; its entry point is a Source, or a function without arguments that makes one.

    sources = make_sources()                            # patchbay.client.sources
    with ConnectionPool(environ=environ) as connections:
        context = SourceContext(connections, find_homes(Path(), environ), environ)
        source = sources.find("@biomcp/search?gene=BRAF", context)
        for record in source.reads("@biomcp/search?gene=BRAF", context):
            ...
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from patchbay.client.addresses.mistakes import describe_mistake
from patchbay.client.addresses.targets import AddressError, Target
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.connection.requests import Item
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, choose_reaction
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import ProfileHomes, Profiles
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.store import Blobs

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "patchbay.sources"
"""The entry point group for sources of other packages."""

DEFAULT_SOURCE = "mcp"
"""The source that handles an unknown profile: its error names the directories that were searched."""

DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of one answer, one document or one record."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.+-]*):")

Record = dict[str, Any]
"""One line of NDJSON. `_error: true` marks a failure (see `make_error_record`)."""


def get_scheme(address: str) -> str:
    """Get the scheme of an address in lower case.

    It is "@" for a profile, "/" for a server of this hub, "" when it has no scheme.
    """
    if address[:1] in ("@", "/"):
        return address[:1]
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def make_error_record(kind: str, message: str, **extras: Any) -> Record:
    """Make the record of a failure; `kind` is `mcp_error`, `resolution_error`, `profile_error` and so on."""
    return {"_error": True, "type": kind, "message": message, **extras}


def enforce_schema_validation(profile: Profile, result: ValidationResult) -> None:
    """Apply a profile's `schema_validation` to the state of its contract: accept it, log a warning, or raise
    ContractError.
    """
    reaction = choose_reaction(result, profile.schema_validation)
    if reaction == "refuse":
        raise ContractError(f"@{profile.name}: {result.message}")
    if reaction == "warn":
        log.warning("@%s: %s", profile.name, result.message)


def _log_ignored_item(item: Item) -> None:
    log.debug("ignored %r", item)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source works with; the same for all addresses of one command.

    `connections` holds the connections to MCP servers, one per target. `homes` are the directories of profiles.
    `${VAR}`s are looked up in `environ`. Contracts are stored in `blobs`. `timeout` is seconds per request when the
    user gave an option for it; `limit` is bytes of one answer. `on_event` receives progress and logs while a request
    runs. `check_contract` receives the state of a profile's contract, once per connection, and raises to refuse it;
    None checks nothing. `checked_contracts` remembers which contracts were checked. `list_servers` names the servers of
    this hub, for the error about an unknown profile. `explain_denial` says what allows a confined program what it was
    refused, by the text of its failure; empty if it was refused nothing.
    """

    connections: ConnectionPool
    homes: ProfileHomes
    environ: Mapping[str, str]
    blobs: Blobs | None = None
    timeout: float | None = None
    limit: int = MAX_ANSWER_BYTES
    on_event: Callable[[Item], None] = _log_ignored_item
    check_contract: Callable[[Profile, ValidationResult], None] | None = enforce_schema_validation
    checked_contracts: set[tuple[object, ...]] = field(default_factory=set)
    list_servers: Callable[[], Collection[str]] | None = None
    explain_denial: Callable[[Target, str], str] | None = None

    def get_timeout(self, own: float | None = None) -> float:
        """Get the seconds for one request: those of the user, else `own` of the profile, else the default."""
        return self.timeout or own or DEFAULT_TIMEOUT_SECONDS

    def get_profiles(self, plugin: str = "mcp") -> Profiles:
        """Get the profiles of one plugin."""
        return Profiles(self.homes, plugin, self.list_servers)

    def without_contract_checks(self) -> SourceContext:
        """Return a copy that checks no contract (`--ignore-schema`)."""
        return replace(self, check_contract=None)


class NotSupported(InvalidParams):
    """A source lacks an operation. The message names both."""

    def __init__(self, source: str, what: str) -> None:
        super().__init__(f"the source {source!r} has no {what}")


@runtime_checkable
class Source(Protocol):
    """The methods of every kind of service. An address is its text as it was written, with its query.

    `name` is the plugin's name: of the folder of its profiles and of their field `plugin`. `schemes` are the schemes of
    the addresses that belong to this source (lower case, without the colon). All methods raise PatchbayErrors:
    AddressError, ProfileError, Unreachable and others, and NotSupported for an operation that a source lacks; a class
    that derives from this one raises NotSupported for each method that it does not define.
    """

    @property
    def name(self) -> str: ...

    @property
    def schemes(self) -> Collection[str]: ...

    def claims(self, address: str) -> bool:
        """Whether an address belongs to this source although its scheme does not say so (`https://.../openapi.json`)."""
        return False

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """Read the records at an address. `arguments` are JSON values and replace arguments of the same names in the
        address.

        Give each record as it arrives; closing the iterator stops the work.
        """
        raise NotSupported(self.name, "reading")

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Write records, and give the records of each result. Keys that start with `_` are left out.

        A record that fails gives an error record, and the next record is tried.
        """
        raise NotSupported(self.name, "writing")

    def inspects(self, address: str, context: SourceContext) -> dict[str, Any]:
        """List what a service offers, as `inspect --format json` does: `server`, `transport`, `tools`, `resources`."""
        raise NotSupported(self.name, "inspection support")

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """List everything that a profile can be made from: `plugin`, `service`, `version_hash`, `discoverable`."""
        raise NotSupported(self.name, "exploration")

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Compare a service with its profile."""
        raise NotSupported(self.name, "validation")

    def versions(self, address: str, context: SourceContext) -> str | None:
        """Compute a hash that changes with the contract; None for a service whose contents have no contract."""
        raise NotSupported(self.name, "version")


@dataclass(frozen=True, eq=False)
class LazySource:
    """A source that is loaded when an address or a profile belongs to it."""

    name: str
    schemes: Collection[str]
    claims: Callable[[str], bool]
    load: Callable[[], Source]


class Sources:
    """All sources. `sources` come first, in this order; installed ones are loaded when they are needed."""

    def __init__(self, fillers: Sequence[Source | LazySource], installed: Sequence[EntryPoint] | None = None) -> None:
        self._sources = list(fillers)
        self._entry_points = None if installed is None else list(installed)

    @property
    def _pending_entry_points(self) -> list[EntryPoint]:
        """The entry points that are not loaded yet; looked up when they are needed."""
        if self._entry_points is None:
            from importlib.metadata import entry_points

            self._entry_points = list(entry_points(group=ENTRY_POINT_GROUP))
        return self._entry_points

    def _load_lazy(self, one: Source | LazySource) -> Source:
        """Load a source if it is lazy."""
        if not isinstance(one, LazySource):
            return one
        made = one.load()
        self._sources[self._sources.index(one)] = made
        return made

    def list_names(self) -> list[str]:
        """List the names of all sources; an installed source has the name of its entry point."""
        return [*(one.name for one in self._sources), *(one.name for one in self._pending_entry_points)]

    def get(self, plugin: str) -> Source:
        """Get the source of this name. Raises AddressError with the known names."""
        for one in self._sources:
            if one.name == plugin:
                return self._load_lazy(one)
        for entry in self._pending_entry_points:
            if entry.name == plugin:
                return self._load_entry_point(entry)
        raise AddressError(f"no source is called {plugin!r}; there are {', '.join(self.list_names())}")

    def find(self, address: str, context: SourceContext) -> Source:
        """Find the source of an address: by its profile, by `claims`, by its scheme. Raises AddressError."""
        if address.startswith("@"):
            return self._find_by_profile(address, context)
        scheme = get_scheme(address)
        found = next((one for one in self._sources if one.claims(address)), None)
        found = found or next((one for one in self._sources if scheme in one.schemes), None)
        return self._load_lazy(found) if found is not None else self._find_installed(address, scheme)

    def _find_by_profile(self, address: str, context: SourceContext) -> Source:
        name = re.split(r"[/?]", address[1:], maxsplit=1)[0]
        plugins = [plugin for plugin in self.list_names() if name in context.get_profiles(plugin).find_directories()]
        if len(plugins) > 1:
            raise ProfileError(f"@{name}", "", f"expected one profile of this name; {', '.join(plugins)} have one each")
        return self.get(plugins[0] if plugins else DEFAULT_SOURCE)

    def _find_installed(self, address: str, scheme: str) -> Source:
        """Ask installed sources, after all others. A source that cannot be loaded does not stop the search."""
        problems: list[str] = []
        for entry in list(self._pending_entry_points):
            try:
                one = self._load_entry_point(entry)
            except PatchbayError as problem:
                problems.append(problem.message)
                continue
            if scheme in one.schemes or one.claims(address):
                return one
        known = ", ".join(sorted({f"{word}:" for one in self._sources for word in one.schemes if word not in "@/"}))
        also = "".join(f"; {problem}" for problem in problems)
        raise AddressError(describe_mistake(address, f"@PROFILE, /mcp/SERVER or one of {known}{also}"))

    def _load_entry_point(self, entry: EntryPoint) -> Source:
        try:
            thing = entry.load()
            made = thing if not isinstance(thing, type) and isinstance(thing, Source) else thing()
        except Exception as problem:  # the module of another package may raise anything when it is imported
            raise AddressError(f"the source {entry.name} ({entry.value}) cannot be loaded: {problem!r}") from problem
        if not isinstance(made, Source):
            raise AddressError(f"the source {entry.name} ({entry.value}) is not a complete Source: it lacks methods")
        self._pending_entry_points.remove(entry)
        self._sources.append(made)
        return made
