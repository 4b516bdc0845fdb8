"""The discovery contract: what every kind of service offers, so that one set of commands serves all of them.

A source answers for one kind of service (`mcp`, `http`, `objects`, or what others install): it reads and writes
records, says what there is (`inspects`, `explores`), whether a profile still fits (`validates`), and which version of
the contract is in force (`versions`). `Sources` finds the one for an address: by the profile behind `@name`, by the
address's scheme, else by asking. Others add theirs under the entry point group `patchbay.sources`; the entry point's
object is a Source, or a function without arguments that makes one.

    sources = known_sources()                           # patchbay.client.sources
    with Connections(environ=environ) as connections:
        means = Means(connections, homes(Path(), environ), environ)
        for record in sources.of("@biomcp/search?gene=BRAF", means).reads("@biomcp/search?gene=BRAF", means):
            ...

Sources: JN-12, JN-18, JN-35, JN-53 to JN-57, JN-68, JN-C3, JN-C15, J-F7, J-F8.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.connection.requests import Item
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, choose_verdict
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import ProfileHomes, Profiles
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.store import Blobs

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "patchbay.sources"
"""The entry point group for sources of third parties."""

DEFAULT_SOURCE = "mcp"
"""The source that is asked for a profile nobody has: its error says where profiles are looked for."""

DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of one answer, one document or one record."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.+-]*):")

Record = dict[str, Any]
"""One line of NDJSON. `_error: true` marks a failure (see `make_error_record`)."""


def get_scheme(address: str) -> str:
    """The scheme of an address in lower case; "@" for a profile, "/" for a server of this hub, "" for neither."""
    if address[:1] in ("@", "/"):
        return address[:1]
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def make_error_record(kind: str, message: str, **extras: Any) -> Record:
    """A failure as a record (JN-19, J-F7): `kind` is `mcp_error`, `resolution_error`, `profile_error`, ..."""
    return {"_error": True, "type": kind, "message": message, **extras}


def enforce_schema_validation(profile: Profile, result: ValidationResult) -> None:
    """What is done about a contract when nobody says otherwise: the profile's `schema_validation` (JN-48)."""
    what = choose_verdict(result, profile.schema_validation)
    if what == "refuse":
        raise ContractError(f"@{profile.name}: {result.message}")
    if what == "warn":
        log.warning("@%s: %s", profile.name, result.message)


def _log_ignored_item(item: Item) -> None:
    log.debug("nobody listens to %r", item)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source works with; the same for all addresses of one command.

    `connections` are those to MCP servers, one per reach for the whole batch; `places` where profiles are; `environ`
    where `${VAR}`s are looked up; `blobs` where contracts are kept. `timeout` is seconds per request where the user has
    said so, `limit` bytes of one answer. `tell` gets progress and logs while a request runs. `judge` is given the state
    of a profile's contract, once per connection, and raises to refuse the use (`enforce_schema_validation` by default; None
    checks nothing). `judged` remembers for which contracts that was done.
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

    def get_timeout(self, own: float | None = None) -> float:
        """The time for one request: what the user said, else a profile's `own`, else the usual."""
        return self.timeout or own or DEFAULT_TIMEOUT_SECONDS

    def get_profiles(self, plugin: str = "mcp") -> Profiles:
        """The profiles of one plugin."""
        return Profiles(self.homes, plugin)

    def without_contract_checks(self) -> SourceContext:
        """The same, checking no contract (`--ignore-schema`, JN-47)."""
        return replace(self, check_contract=None)


class NotSupported(InvalidParams):
    """A source has no such thing: what was asked for, and of which source (JN-35)."""

    def __init__(self, source: str, what: str) -> None:
        super().__init__(f"the source {source!r} has no {what}")


@runtime_checkable
class Source(Protocol):
    """What every kind of service offers. An address is given as it was written, query and all.

    `name` is the plugin's name: of the folder of its profiles and of their field `plugin`. `schemes` are those of
    addresses that are this source's for certain (lower case, without the colon).
    All methods raise PatchbayErrors: AddressError, ProfileError, Unreachable, ..., and NotOffered for what a source
    cannot do; a class that derives from this one does so for each method that it leaves out.
    """

    @property
    def name(self) -> str: ...

    @property
    def schemes(self) -> Collection[str]: ...

    def claims(self, address: str) -> bool:
        """Whether an address of another source's scheme, or of none, is this source's (`https://.../openapi.json`)."""
        return False

    def reads(
        self, address: str, context: SourceContext, arguments: Mapping[str, Any] | None = None
    ) -> Iterator[Record]:
        """The records at an address. `arguments` are JSON values and win over those of the address (JN-31).

        Records are given as they come; closing the iterator stops the work.
        """
        raise NotSupported(self.name, "reading")

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        context: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Write records, and give what comes of each (JN-12, JN-C17). Keys that start with `_` are left out (J-F8).

        A record that fails gives an error record, and the next one is tried.
        """
        raise NotSupported(self.name, "writing")

    def inspects(self, address: str, context: SourceContext) -> dict[str, Any]:
        """What there is, as `inspect --format json` shows it: `server`, `transport`, `tools`, `resources` (JN-33)."""
        raise NotSupported(self.name, "inspection support")

    def explores(self, address: str, context: SourceContext) -> dict[str, Any]:
        """The universe behind a profile: `plugin`, `service`, `version_hash`, `discoverable` (JN-54)."""
        raise NotSupported(self.name, "exploration")

    def validates(self, profile: Profile, context: SourceContext) -> ValidationResult:
        """Whether a profile still fits its service (JN-44, JN-56)."""
        raise NotSupported(self.name, "validation")

    def versions(self, address: str, context: SourceContext) -> str | None:
        """A hash that changes when the contract does; None where contents change all the time (JN-57)."""
        raise NotSupported(self.name, "version")


@dataclass(frozen=True, eq=False)
class LazySource:
    """A source that is loaded when an address or a profile is its own."""

    name: str
    schemes: Collection[str]
    claims: Callable[[str], bool]
    load: Callable[[], Source]


class Sources:
    """The sources there are. `fillers` come first, in this order; installed ones are loaded when they are needed."""

    def __init__(self, fillers: Sequence[Source | LazySource], installed: Sequence[EntryPoint] | None = None) -> None:
        self._sources = list(fillers)
        self._entry_points = None if installed is None else list(installed)

    @property
    def _pending_entry_points(self) -> list[EntryPoint]:
        """The entry points of others, looked up when they are needed."""
        if self._entry_points is None:
            from importlib.metadata import entry_points

            self._entry_points = list(entry_points(group=ENTRY_POINT_GROUP))
        return self._entry_points

    def _load_lazy(self, one: Source | LazySource) -> Source:
        """The source itself, loaded."""
        if not isinstance(one, LazySource):
            return one
        made = one.load()
        self._sources[self._sources.index(one)] = made
        return made

    def list_names(self) -> list[str]:
        """The names of all sources; those of installed ones are their entry points'."""
        return [*(one.name for one in self._sources), *(one.name for one in self._pending_entry_points)]

    def get(self, plugin: str) -> Source:
        """The source of this name. Raises AddressError with the names there are."""
        for one in self._sources:
            if one.name == plugin:
                return self._load_lazy(one)
        for entry in self._pending_entry_points:
            if entry.name == plugin:
                return self._load_entry_point(entry)
        raise AddressError(f"no source is called {plugin!r}; there are {', '.join(self.list_names())}")

    def find(self, address: str, context: SourceContext) -> Source:
        """The source of an address: by its profile, by who claims it, by its scheme. Raises AddressError."""
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
        """Installed sources are asked last, and one that cannot be loaded is no reason to refuse another's address."""
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
        raise AddressError(f"not an address: {address[:200]!r}; expected @PROFILE, /mcp/SERVER or one of {known}{also}")

    def _load_entry_point(self, entry: EntryPoint) -> Source:
        try:
            thing = entry.load()
            made = thing if not isinstance(thing, type) and isinstance(thing, Source) else thing()
        except Exception as problem:  # whatever a stranger's module raises when it is imported
            raise AddressError(f"the source {entry.name} ({entry.value}) cannot be loaded: {problem!r}") from problem
        if not isinstance(made, Source):
            raise AddressError(f"the source {entry.name} ({entry.value}) lacks a part of the contract of a Source")
        self._pending_entry_points.remove(entry)
        self._sources.append(made)
        return made
