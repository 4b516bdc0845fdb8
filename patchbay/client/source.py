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
from patchbay.client.connection.pool import Connections
from patchbay.client.connection.requests import Item
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, verdict
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import Homes, Profiles
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.store import Blobs

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

GROUP = "patchbay.sources"
"""The entry point group for sources of third parties."""

DEFAULT = "mcp"
"""The source that is asked for a profile nobody has: its error says where profiles are looked for."""

TIMEOUT = 60.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of one answer, one document or one record."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.+-]*):")

Record = dict[str, Any]
"""One line of NDJSON. `_error: true` marks a failure (see `error_record`)."""


def scheme_of(address: str) -> str:
    """The scheme of an address in lower case; "@" for a profile, "/" for a server of this hub, "" for neither."""
    if address[:1] in ("@", "/"):
        return address[:1]
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def error_record(kind: str, message: str, **extras: Any) -> Record:
    """A failure as a record (JN-19, J-F7): `kind` is `mcp_error`, `resolution_error`, `profile_error`, ..."""
    return {"_error": True, "type": kind, "message": message, **extras}


def judged_by_profile(profile: Profile, result: ValidationResult) -> None:
    """What is done about a contract when nobody says otherwise: the profile's `schema_validation` (JN-48)."""
    what = verdict(result, profile.schema_validation)
    if what == "refuse":
        raise ContractError(f"@{profile.name}: {result.message}")
    if what == "warn":
        log.warning("@%s: %s", profile.name, result.message)


def _unheard(item: Item) -> None:
    log.debug("nobody listens to %r", item)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source works with; the same for all addresses of one command.

    `connections` are those to MCP servers, one per reach for the whole batch; `places` where profiles are; `environ`
    where `${VAR}`s are looked up; `blobs` where contracts are kept. `timeout` is seconds per request where the user has
    said so, `limit` bytes of one answer. `tell` gets progress and logs while a request runs. `judge` is given the state
    of a profile's contract, once per connection, and raises to refuse the use (`judged_by_profile` by default; None
    checks nothing). `judged` remembers for which contracts that was done.
    """

    connections: Connections
    places: Homes
    environ: Mapping[str, str]
    blobs: Blobs | None = None
    timeout: float | None = None
    limit: int = MAX_ANSWER_BYTES
    tell: Callable[[Item], None] = _unheard
    judge: Callable[[Profile, ValidationResult], None] | None = judged_by_profile
    judged: set[tuple[object, ...]] = field(default_factory=set)

    def seconds(self, own: float | None = None) -> float:
        """The time for one request: what the user said, else a profile's `own`, else the usual."""
        return self.timeout or own or TIMEOUT

    def profiles(self, plugin: str = "mcp") -> Profiles:
        """The profiles of one plugin."""
        return Profiles(self.places, plugin)

    def without_judging(self) -> SourceContext:
        """The same, checking no contract (`--ignore-schema`, JN-47)."""
        return replace(self, judge=None)


class NotOffered(InvalidParams):
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

    def reads(self, address: str, means: SourceContext, arguments: Mapping[str, Any] | None = None) -> Iterator[Record]:
        """The records at an address. `arguments` are JSON values and win over those of the address (JN-31).

        Records are given as they come; closing the iterator stops the work.
        """
        raise NotOffered(self.name, "reading")

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        means: SourceContext,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record]:
        """Write records, and give what comes of each (JN-12, JN-C17). Keys that start with `_` are left out (J-F8).

        A record that fails gives an error record, and the next one is tried.
        """
        raise NotOffered(self.name, "writing")

    def inspects(self, address: str, means: SourceContext) -> dict[str, Any]:
        """What there is, as `inspect --format json` shows it: `server`, `transport`, `tools`, `resources` (JN-33)."""
        raise NotOffered(self.name, "inspection support")

    def explores(self, address: str, means: SourceContext) -> dict[str, Any]:
        """The universe behind a profile: `plugin`, `service`, `version_hash`, `discoverable` (JN-54)."""
        raise NotOffered(self.name, "exploration")

    def validates(self, profile: Profile, means: SourceContext) -> ValidationResult:
        """Whether a profile still fits its service (JN-44, JN-56)."""
        raise NotOffered(self.name, "validation")

    def versions(self, address: str, means: SourceContext) -> str | None:
        """A hash that changes when the contract does; None where contents change all the time (JN-57)."""
        raise NotOffered(self.name, "version")


@dataclass(frozen=True, eq=False)
class LateSource:
    """A source that is loaded when an address or a profile is its own."""

    name: str
    schemes: Collection[str]
    claims: Callable[[str], bool]
    load: Callable[[], Source]


class Sources:
    """The sources there are. `fillers` come first, in this order; installed ones are loaded when they are needed."""

    def __init__(self, fillers: Sequence[Source | LateSource], installed: Sequence[EntryPoint] | None = None) -> None:
        self._fillers = list(fillers)
        self._found = None if installed is None else list(installed)

    @property
    def _installed(self) -> list[EntryPoint]:
        """The entry points of others, looked up when they are needed."""
        if self._found is None:
            from importlib.metadata import entry_points

            self._found = list(entry_points(group=GROUP))
        return self._found

    def _ready(self, one: Source | LateSource) -> Source:
        """The source itself, loaded."""
        if not isinstance(one, LateSource):
            return one
        made = one.load()
        self._fillers[self._fillers.index(one)] = made
        return made

    def names(self) -> list[str]:
        """The names of all sources; those of installed ones are their entry points'."""
        return [*(one.name for one in self._fillers), *(one.name for one in self._installed)]

    def named(self, plugin: str) -> Source:
        """The source of this name. Raises AddressError with the names there are."""
        for one in self._fillers:
            if one.name == plugin:
                return self._ready(one)
        for entry in self._installed:
            if entry.name == plugin:
                return self._loaded(entry)
        raise AddressError(f"no source is called {plugin!r}; there are {', '.join(self.names())}")

    def of(self, address: str, means: SourceContext) -> Source:
        """The source of an address: by its profile, by who claims it, by its scheme. Raises AddressError."""
        if address.startswith("@"):
            return self._of_profile(address, means)
        scheme = scheme_of(address)
        found = next((one for one in self._fillers if one.claims(address)), None)
        found = found or next((one for one in self._fillers if scheme in one.schemes), None)
        return self._ready(found) if found is not None else self._of_installed(address, scheme)

    def _of_profile(self, address: str, means: SourceContext) -> Source:
        name = re.split(r"[/?]", address[1:], maxsplit=1)[0]
        plugins = [plugin for plugin in self.names() if name in means.profiles(plugin).names()]
        if len(plugins) > 1:
            raise ProfileError(f"@{name}", "", f"expected one profile of this name; {', '.join(plugins)} have one each")
        return self.named(plugins[0] if plugins else DEFAULT)

    def _of_installed(self, address: str, scheme: str) -> Source:
        """Installed sources are asked last, and one that cannot be loaded is no reason to refuse another's address."""
        problems: list[str] = []
        for entry in list(self._installed):
            try:
                one = self._loaded(entry)
            except PatchbayError as problem:
                problems.append(problem.message)
                continue
            if scheme in one.schemes or one.claims(address):
                return one
        known = ", ".join(sorted({f"{word}:" for one in self._fillers for word in one.schemes if word not in "@/"}))
        also = "".join(f"; {problem}" for problem in problems)
        raise AddressError(f"not an address: {address[:200]!r}; expected @PROFILE, /mcp/SERVER or one of {known}{also}")

    def _loaded(self, entry: EntryPoint) -> Source:
        try:
            thing = entry.load()
            made = thing if not isinstance(thing, type) and isinstance(thing, Source) else thing()
        except Exception as problem:  # whatever a stranger's module raises when it is imported
            raise AddressError(f"the source {entry.name} ({entry.value}) cannot be loaded: {problem!r}") from problem
        if not isinstance(made, Source):
            raise AddressError(f"the source {entry.name} ({entry.value}) lacks a part of the contract of a Source")
        self._installed.remove(entry)
        self._fillers.append(made)
        return made
