"""A mount: how one server is reached, according to its configuration.

Variables (`${NAME}`) are substituted when the server is reached, never before, and their values are shown nowhere; a
value whose name is that of a secret must be such a variable. A mount is hashable: the same configuration is the same
mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

import orjson

from patchbay.caller_accounts.credentials import CALLER, SIGN_IN, Upstream
from patchbay.caller_accounts.way import Reach, WaySettings
from patchbay.caller_accounts.ways import WAY_FIELDS, read_terms, read_way
from patchbay.cid import cid_of
from patchbay.client.addresses.address import Address, parse_address
from patchbay.client.addresses.programs import identify_program
from patchbay.client.addresses.resolution import resolve_address
from patchbay.client.addresses.secrets import is_secret, is_secret_name
from patchbay.client.addresses.targets import AddressError, Era, Http, Local, Stdio, Target
from patchbay.client.addresses.variables import substitute_env_vars_recursive
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.errors import ConfigError
from patchbay.pins.documents import Changes
from patchbay.processes.confinement.programs import OFF, OWN, ProgramPermissions
from patchbay.processes.egress.egress_list import EgressEntryError, parse_egress_list
from patchbay.topics import SERVERS

UPSTREAM, OPENAPI = "upstream", "openapi"
"""The kinds of mounts, as the field `kind` names them: an MCP server, an HTTP API."""

START_SECONDS = 60.0
"""Seconds within which a server must answer for the first time."""

CALLERS_SIGN_IN = (
    f'expected no sign-in beside "account": "{CALLER}": each caller signs in; put the client_id of the hub into oauth'
)
PERMISSION_FIELDS = ("reads", "writes", "home", "needs", "network", "confine", "memory")
"""The fields that say what a program on this machine may do."""

MOUNT_FIELDS = (
    *("address", "headers", "environment", "era", "changes", "account", *WAY_FIELDS),
    *("sessions", "session_limit", "session_idle", *PERMISSION_FIELDS),
)
"""The fields of a configuration that `mount_of` reads."""

EACH, SHARED = "each", "shared"
"""The values of `sessions`: each session of the hub has its own process or session of the server, or all share one."""

SESSION_LIMIT_OF_PROGRAM, SESSION_LIMIT_OF_URL = 32, 256
"""Connections for sessions at a time, by default."""

SESSION_IDLE_SECONDS = 3600.0
"""Seconds without a call after which the connection of a session is closed, by default."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_API = "openapi+"
_MIN_SECRET_CHARACTERS = 6
"""Minimum characters of a secret; removing shorter values would make a sentence unreadable."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """How the server `name` is reached. `headers` and `environment` are as written, without substitution.

    `public` restricts a URL to public addresses, for callers that may not explore the hub's network. `changes` says
    what happens when the server changes what it lists; None is the hub's default. `way` says how the server gets the
    credentials of callers, None where it gets the hub's; `oauth` is as written. `sessions` is EACH
    or SHARED; with EACH there are at most `session_limit` connections for sessions, each closed after `session_idle`
    seconds without a call. `permissions` are those of a program on this machine. `file` is the file of the watched
    folder that describes it, empty for another source.
    """

    name: str
    address: str
    headers: Pairs = ()
    environment: Pairs = ()
    era: Era = "auto"
    public: bool = False
    changes: Changes | None = None
    way: WaySettings | None = None
    oauth: Pairs = ()
    sessions: str = EACH
    session_limit: int = SESSION_LIMIT_OF_PROGRAM
    session_idle: float = SESSION_IDLE_SECONDS
    permissions: ProgramPermissions = field(default_factory=ProgramPermissions)
    file: str = field(default="", compare=False)

    @property
    def has_caller_credentials(self) -> bool:
        """Whether each caller has its own credential there."""
        return self.way is not None

    @property
    def digest(self) -> str:
        """The CID of how it is reached: lists that were read from another address are not shown."""
        reached: list[Any] = [self.address, self.headers, self.environment, self.era]
        if self.way is not None:
            reached += [CALLER] if self.way.name == SIGN_IN else [CALLER, self.way.name]
        return cid_of(orjson.dumps(reached))

    def reach(self, environ: Mapping[str, str]) -> Target:
        """Return how it is reached now. Raises ConfigError for a missing profile or variable."""
        address = parse_address(self.address)
        found = resolve_address(address, Profiles(find_homes(Path.cwd(), environ)), environ).target
        more = {"headers": dict(self.headers), "environment": dict(self.environment)}
        more = substitute_env_vars_recursive(more, environ, self.name)
        if isinstance(found, Http):
            url = _fill_query(found.url, environ, self.name)
            target = replace(found, url=url, headers={**found.headers, **more["headers"]}, public=self.public)
            check_sign_in(target, self.public, self.name)
            return target
        if isinstance(found, Stdio):
            return replace(found, env={**found.env, **more["environment"]})
        return found

    def upstream(self, environ: Mapping[str, str]) -> Upstream:
        """Return the server for credentials of callers.

        Raises ConfigError for a missing profile or variable, or an address that does not fit the way.
        """
        way, target = self.way, self.reach(environ)
        assert way is not None
        is_program = isinstance(target, Stdio) and any(one.place == "variable" for one in way.fields)
        if isinstance(target, Local) or (isinstance(target, Stdio) and not is_program):
            raise ConfigError(self.name, "account", f"expected the address of a URL, not {target.label}")
        if isinstance(target, Http) and target.sign_in is not None:
            raise ConfigError(self.name, "address", CALLERS_SIGN_IN)
        own = substitute_env_vars_recursive(dict(self.oauth), environ, self.name)
        client = {key: own.get(key, "") for key in ("client_id", "client_secret", "scope")}
        return Upstream(
            self.name,
            target,
            **client,
            way=way.name,
            fields=way.fields,
            address=self.address,
            audience=own.get("resource", ""),
            exchange=read_terms(own),
        )

    @property
    def direct_reach(self) -> Http | Stdio | None:
        """How the address itself reaches it, without substitution; None for a profile or a preset."""
        target = parse_address(self.address).target
        return target if isinstance(target, (Http, Stdio)) else None

    @property
    def program(self) -> str:
        """Which program the address starts, as `identify_program` names it; a profile or a preset by its address."""
        target = self.direct_reach
        return identify_program(target) if isinstance(target, Stdio) else self.address

    @property
    def exposed_variables(self) -> list[str]:
        """The variables with the name of a secret on the command line, which every user of the machine can see."""
        target = self.direct_reach
        words = target.args if isinstance(target, Stdio) else ()
        pairs = zip(words, ("", *words), strict=False)
        return sorted(
            {
                name
                for word, before in pairs
                for name in _VARIABLE.findall(word)
                if any(is_secret_name(one) for one in (name, before.lstrip("-"), word.partition("=")[0].lstrip("-")))
            }
        )

    def secrets(self, environ: Mapping[str, str]) -> frozenset[str]:
        """Return the values of the variables that it names."""
        pairs = (*self.headers, *self.environment, *self.oauth)
        return find_secret_values([self.address, *(value for _, value in pairs)], environ)


def find_secret_values(texts: Iterable[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the variables that texts of a configuration name; no message shows them.

    Each stands there as it is and as a URL has it.
    """
    names = {name for text in texts for name in _VARIABLE.findall(text)}
    values = {value for name in names if len(value := _find_value(name, environ)) >= _MIN_SECRET_CHARACTERS}
    return frozenset(values | {quote(value, safe="") for value in values} | {quote_plus(value) for value in values})


def _find_value(name: str, environ: Mapping[str, str]) -> str:
    try:
        return environ.get(name, "")
    except ConfigError:  # a secret that this server may not use
        return ""


def mount_of(name: str, fields: Mapping[str, Any], where: str) -> Mount:
    """Return the mount that a configuration of kind `upstream` describes. Raises ConfigError.

    A field `public`, which no configuration can have, sets `Mount.public`.
    """
    headers = tuple(sorted(fields.get("headers", {}).items()))
    environment = tuple(sorted(fields.get("environment", {}).items()))
    oauth = tuple(sorted(fields.get("oauth", {}).items()))
    address = _checked(fields["address"], where)
    way = read_way(fields, _reach_of(address), where)
    if way is not None:
        _check_address(fields, address, way, where)
    for path, key, value in _values(address, headers, environment, oauth):
        if "${" not in value and is_secret_name(key) and is_secret(key, value):
            raise ConfigError(where, path, f"expected a variable such as ${{NAME}} as the value of {key}, not a secret")
    if headers and not _may_be(address, Http):
        raise ConfigError(where, "headers", "expected headers only for the address of a URL")
    if environment and not _may_be(address, Stdio):
        raise ConfigError(where, "environment", "expected an environment only for the address of a program")
    era, public = fields.get("era", "auto"), fields.get("public") is True
    if isinstance(address.target, Http):
        check_sign_in(address.target, public, where)
    reached = (name, fields["address"], headers, environment, era, public)
    limit = SESSION_LIMIT_OF_URL if isinstance(address.target, Http) else SESSION_LIMIT_OF_PROGRAM
    return Mount(
        *reached,
        fields.get("changes"),
        way,
        oauth,
        fields.get("sessions", EACH),
        fields.get("session_limit", limit),
        float(fields.get("session_idle", SESSION_IDLE_SECONDS)),
        _permissions_of(fields, address, where),
        where.removeprefix(SERVERS) if where.startswith(SERVERS) else "",
    )


def _permissions_of(fields: Mapping[str, Any], address: Address, where: str) -> ProgramPermissions:
    """Return what the program of a mount may do. Raises ConfigError for such a field beside the address of a URL."""
    given = [name for name in PERMISSION_FIELDS if name in fields]
    if given and not _may_be(address, Stdio):
        raise ConfigError(where, given[0], "expected only for the address of a program: the hub starts nothing here")
    return ProgramPermissions(
        tuple(fields.get("reads", ())),
        tuple(fields.get("writes", ())),
        fields.get("home", OWN),
        fields.get("needs", ""),
        _read_network(fields, where),
        fields.get("confine", ""),
        fields.get("memory", 0),
    )


def _read_network(fields: Mapping[str, Any], where: str) -> bool | tuple[str, ...]:
    """Return whether a program has a network, or the hosts that it may reach. Raises ConfigError."""
    network = fields.get("network", True)
    if network is not True and fields.get("confine") == OFF:
        raise ConfigError(where, "network", f'expected true beside "confine": "{OFF}": nothing would enforce it')
    if isinstance(network, bool):
        return network
    try:
        parse_egress_list(network)
    except EgressEntryError as problem:
        raise ConfigError(where, f"network.{problem.data['index']}", problem.message) from problem
    return tuple(network)


def check_sign_in(target: Http, public: bool, where: str) -> None:
    """Check that a hub can use the configured sign-in of a target. Raises ConfigError."""
    if target.sign_in is None:
        return
    if target.sign_in.way == "browser":
        raise ConfigError(where, "address", f'expected a sign-in without a browser, or "account": "{CALLER}"')
    if target.has_authorization:
        raise ConfigError(where, "headers", "expected a sign-in or a header Authorization, not both")
    if public:
        raise ConfigError(where, "address", "expected no sign-in: only the operator of the hub may use its credentials")


def _reach_of(address: Address) -> Reach:
    """Return what an address mounts."""
    if isinstance(address.target, Http):
        return "url"
    return "program" if isinstance(address.target, Stdio) else "profile"


def _check_address(fields: Mapping[str, Any], address: Address, way: WaySettings, where: str) -> None:
    """Check that an address leaves the credentials to callers. Raises ConfigError."""
    target = address.target
    if isinstance(target, Stdio) and fields.get("sessions") == SHARED:
        raise ConfigError(where, "sessions", f'expected "{EACH}": the credential of a caller is for its own process')
    if not isinstance(target, Http):
        return
    if target.sign_in is not None:
        raise ConfigError(where, "address", CALLERS_SIGN_IN)
    given = {("header", name.lower()) for name in target.headers}
    given |= {("query", name.lower()) for name, _ in parse_qsl(urlsplit(target.url).query, keep_blank_values=True)}
    if ("header", "authorization") in given & way.list_places():
        raise ConfigError(where, "headers", "expected no header Authorization: each caller's own token is sent in it")
    for _, name in sorted(given & way.list_places()):
        raise ConfigError(where, "address", f"expected no {name} in the address: it is of each caller's own credential")


def _checked(text: str, where: str) -> Address:
    if text.lower().startswith(_API):
        raise ConfigError(
            where,
            "address",
            f'expected an MCP server; an HTTP API has "kind": "openapi" and "document": "{text[len(_API) :]}"',
        )
    try:
        address = parse_address(text)
    except AddressError as problem:
        raise ConfigError(where, "address", problem.message) from problem
    if isinstance(address.target, Local):
        raise ConfigError(where, "address", "expected a server outside this hub; servers of this hub need no mount")
    if address.operation != "none" or address.arguments or address.exact or address.schema:
        raise ConfigError(where, "address", "expected the address of a server, without an operation or arguments")
    return address


def _fill_query(url: str, environ: Mapping[str, str], name: str) -> str:
    """Return a URL with the variables of its query filled in. Raises ConfigError for a missing variable."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if not any("${" in value for _, value in pairs):
        return url
    filled = [(key, substitute_env_vars_recursive(value, environ, name)) for key, value in pairs]
    return parts._replace(query=urlencode(filled, quote_via=quote)).geturl()


def _may_be(address: Address, kind: type) -> bool:
    """Whether it is reached in this way; True for a profile, which is not read here."""
    return isinstance(address.target, kind) or not isinstance(address.target, (Http, Stdio))


def _values(address: Address, headers: Pairs, environment: Pairs, oauth: Pairs = ()) -> Iterator[tuple[str, str, str]]:
    """Yield every named value: its place in the configuration, its name, its value."""
    yield from ((f"oauth.{key}", key, value) for key, value in oauth)
    yield from ((f"headers.{key}", key, value) for key, value in headers)
    yield from ((f"environment.{key}", key, value) for key, value in environment)
    target = address.target
    if isinstance(target, Http):
        yield from (("address", key, value) for key, value in target.headers.items())
        if target.sign_in is not None:
            secret = target.sign_in.client_secret
            yield from [("address", "client_secret", secret)] if secret else []
        parts = urlsplit(target.url)
        yield from (("address", key, value) for key, value in parse_qsl(parts.query))
        if parts.password:
            yield "address", "password", parts.password
    elif isinstance(target, Stdio):
        yield from (("address", key, value) for key, value in target.env.items())
        yield from (("address", key, value) for key, value in _options(target.args))


def _options(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if equals or (word.startswith("-") and after and not after.startswith("-")):
            yield name, value if equals else after
