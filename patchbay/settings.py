"""The table of all settings: name, default, help. The command line, the environment and the docs come from it.

A setting `inline_limit` is `--inline-limit` on the command line and `PATCHBAY_INLINE_LIMIT` in the environment; the
command line wins. Only this file reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from patchbay.assets import HOME
from patchbay.hosts.names import is_loopback, is_loopback_name
from patchbay.hosts.path_prefix import choose_path_prefix
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.setting_values.rows import converted, setting

PREFIX = "PATCHBAY_"
GIVEN_KEY = "PATCHBAY_KEY"
REDIS_PASSWORD = "REDISCLI_AUTH"
PERSONAL, SHARED, OPEN = "personal", "shared", "open"
"""The modes of access: callers on this machine, callers that sign in, everybody who can reach the hub."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The hub's settings. `Settings.load` reads them; tests pass values directly."""

    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8000, "Port to listen on.", most=65535)
    data: Path = setting(HOME / "data", "Folder of the database and the hub's own key.")
    jane_dir: str = setting(
        "",
        "Folder of the documents of the server jane; empty means the `folder` of its configuration, else `jane` in the"
        " data folder. `JANE_DIR` is the same.",
        alias="JANE_DIR",
    )
    embeddings: str = setting(
        "",
        "Model for search by meaning: a Model2Vec folder, such as a multilingual one; empty for the model of the extra"
        " `semantic`, where it is installed; off for searches by words only. No model is fetched.",
    )
    servers: Path = setting(HOME / "servers", "Folder that is watched for drop-in servers.")
    boot: str = setting("default", "Boot image: a name in reference_templates/, a path, or a CID in the store.")
    enable: tuple[str, ...] = setting(
        (), "Shipped servers to switch on; off by default are everything, bash and claudecode; comma-separated."
    )
    workers: int = setting(1, "Number of worker processes.", least=1, most=1024)
    threads: int = setting(
        256, "Threads in each worker; a call uses one until its end, a listening stream none.", least=1, most=65536
    )
    store: str = setting(
        "sqlite",
        "Where the hub stores its data: in the data folder, in memory only, or in a PostgreSQL that any number of hubs"
        " share. The password comes from PGPASSWORD or PGPASSFILE.",
        choices=("sqlite", "memory", "postgresql://USER@HOST/DB"),
    )
    bus_address: str = setting(
        "",
        "Address of a Redis or Valkey for messages between hubs, such as redis://HOST:6379/0, whose password comes from"
        " REDISCLI_AUTH; or of PostgreSQL itself, where that of the store leads through a pooler such as PgBouncer.",
    )
    blobs: str = setting(
        "",
        "Bucket for contents above 1 MiB of a store in PostgreSQL, such as s3://BUCKET/PREFIX, with a prefix that no"
        " other hub uses. The endpoint and the credentials come from AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID"
        " and AWS_SECRET_ACCESS_KEY.",
    )
    key_file: str = setting(
        "",
        "File with the key of all hubs on one store, as 64 hexadecimal digits. The variable PATCHBAY_KEY holds the key"
        " itself.",
    )
    secrets_dir: str = setting(
        "",
        "Folder with a secret in each file, named as configurations name it (${NAME}), such as /run/secrets; secrets"
        " that the hub stores come first, variables of the environment last.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        ("localhost", "127.0.0.1", "[::1]"), "Host names that requests may have in `Host`, comma-separated."
    )
    public_url: str = setting("", "URL of the hub in links for people, such as https://hub.example; else its own.")
    path_prefix: str = setting("", "Path below which a proxy publishes the hub, such as /hub; else that of public_url.")
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Proxies in front of the hub, whose X-Forwarded-For names the client: addresses and networks, such as"
        " 127.0.0.1,10.0.0.0/8.",
    )
    allowed_origins: tuple[str, ...] = setting(
        (), "Origins of other sites whose pages may call the hub, such as https://app.example, comma-separated."
    )
    access: str = setting(
        "auto",
        "Who may see servers and call tools: everyone on this machine (personal), callers that sign in (shared), or"
        " everyone who can reach the hub (open). Auto means personal if host and allowed_hosts name only this machine"
        " and neither issuer nor sign_in is set, else shared.",
        choices=("auto", "personal", "shared", "open"),
    )
    token_minutes: float = setting(15.0, "How long an access token of this hub is valid.", "minutes", least=0.01)
    client_hosts: tuple[str, ...] = setting(
        (), "Hosts at private addresses that may serve metadata documents of clients, comma-separated."
    )
    registry: str = setting(
        "https://registry.modelcontextprotocol.io", "URL of the registry of MCP servers for patchbay add and search."
    )
    registry_readers: str = setting(
        "callers",
        "Who may read which servers the hub has at /v0.1/servers, the registry for VS Code and Copilot: those who may"
        " use the hub (callers), or everyone who can reach it (all): then what every caller may see is public.",
        choices=("callers", "all"),
    )
    pypi: str = setting("https://pypi.org", "URL of the package index that patchbay add and outdated ask.")
    npm: str = setting("https://registry.npmjs.org", "URL of the Node registry that patchbay add and outdated ask.")
    webhook_hosts: tuple[str, ...] = setting(
        (), "Hosts at private addresses that webhooks of events may be sent to, comma-separated."
    )
    log_level: str = setting("info", "Minimum level of log lines.", choices=("debug", "info", "warning", "error"))
    log_format: str = setting(
        "auto", "Format of the log; auto means console on a terminal, else json.", choices=("auto", "console", "json")
    )
    otlp: str = setting(
        "",
        "URL of a collector of OpenTelemetry, such as http://127.0.0.1:4318, that gets traces and metrics by OTLP over"
        " HTTP; empty for none. Needs the extra patchbay-hub[tracing].",
    )
    otlp_callers: str = setting(
        "none", "What a trace says about the caller: nothing (none), or the caller's id (ids).", choices=("none", "ids")
    )
    timeout: float = setting(30.0, "Time limit of a call, unless its server sets one.", "seconds")
    progress_timeout: float = setting(
        600.0,
        "Time limit in all of a call of a mounted server without a limit of its own that reports progress; its usual"
        " limit then counts from the newest progress.",
        "seconds",
    )
    isolation: str = setting(
        "process",
        "Where Python definitions run, unless their server sets it: in separate processes, or inside the hub.",
        choices=("process", "inline"),
    )
    protections: tuple[str, ...] = setting(
        ("landlock", "namespaces", "privacy"),
        "Protections of the hub from the code of tools, where the machine supports them; comma-separated,"
        " empty for none.",
        choices=("landlock", "namespaces", "privacy"),
    )
    confine: str = setting(
        "default",
        "How mounted programs run, unless their server says: confined if possible, always, or not.",
        choices=("default", "required", "off"),
    )
    writes: tuple[str, ...] = setting(
        (), "Folders that the code of every server may write to, such as ~/notes, comma-separated."
    )
    packages: str = setting(
        "wheels",
        "Packages that definitions may require: off for none, wheels, or any. A package that is not a wheel runs its"
        " own code when it is built.",
        choices=("off", "wheels", "any"),
    )
    hosts: int = setting(64, "Maximum number of processes for Python definitions in each worker.")
    hosts_idle: float = setting(60.0, "How long an idle process for Python definitions is kept.", "seconds")
    memory: int = setting(512, "Memory limit of each process of a definition, unless its server sets one.", "MiB")
    drain: float = setting(25.0, "How long running calls may continue after SIGTERM.", "seconds")
    body_limit: int = setting(4 * 1024 * 1024, "Maximum size of a request body.", "bytes")
    bodies_limit: int = setting(
        12 * 1024 * 1024,
        "Maximum total size, in each worker, of the bodies above 16 KiB of all running requests, if each takes as much"
        " memory as a body can (30 times its size); one caller has at most a quarter.",
        "bytes",
    )
    connections: int = setting(
        1024,
        "Maximum number of open connections of one address in each worker; at most 3/4 of its file descriptors.",
        least=1,
    )
    inline_limit: int = setting(256 * 1024, "Maximum size of a text in a result; the rest becomes a link.", "bytes")
    result_minutes: float = setting(60.0, "How long the hub stores a text that is too large for a result.", "minutes")
    result_size: int = setting(
        64 * 1024 * 1024,
        "Maximum total size of what is stored for one caller: these texts, answers for replay and results of tasks."
        " The hub deletes the oldest first.",
        "bytes",
    )
    stored_things: int = setting(
        4096, "Maximum number of these things of one caller; the hub deletes the oldest first.", least=16
    )
    upload_limit: int = setting(
        16 * 1024 * 1024,
        "Maximum size of a content that a caller uploads (POST /blobs), or gives to a tool by its link.",
        "bytes",
    )
    read_limit: int = setting(8 * 1024 * 1024, "Maximum size of a resource that a client reads.", "bytes")
    page_size: int = setting(1000, "Entries on one page of a list.", least=1, most=10_000)
    listeners: int = setting(
        10_000,
        "Maximum number of listening streams in each worker, with replays, streams of 2024-11-05 and WebSockets.",
    )
    blob_hours: float = setting(
        24.0,
        "How long the hub keeps unused content, such as uploads and past values that tools stored.",
        "hours",
        least=1,
    )
    session_hours: float = setting(24.0, "How long a session id is valid.", "hours")
    session_changes: int = setting(
        10_000,
        "Maximum number of subscriptions and other changes in the sessions of one caller, within session_hours.",
        least=1,
    )
    subscription_size: int = setting(
        8 * 1024 * 1024, "Maximum total size of the URIs of these subscriptions.", "bytes", least=1024
    )
    call_ids: int = setting(
        100_000,
        "Maximum number of calls with an id (io.patchbay/call) that the hub remembers for one caller, for 24 hours.",
        least=1,
    )
    replay_minutes: float = setting(60.0, "How long the hub stores the events of a stream for replay.", "minutes")
    replay_size: int = setting(
        8 * 1024 * 1024, "Maximum size of the stored progress and log messages of one stream.", "bytes"
    )
    join_repeats: str = setting(
        "never",
        "Whether a call joins a running one of the same principal with the same bytes: never, or safe (only principals"
        " with an identity, and tools with idempotentHint or readOnlyHint); it then outlives its connection.",
        choices=("never", "safe"),
    )
    tasks: int = setting(
        64, "Maximum of running tasks in each worker, and of calls that survive their connection.", least=1, most=65536
    )
    task_minutes: float = setting(60.0, "How long a task may run, and its result stays.", "minutes", least=0.1)
    jobs: int = setting(4, "Jobs that a node runs at a time; 0 leaves them to `patchbay worker`.", most=1024)
    write_timeout: float = setting(
        30.0, "How long a client may not read waiting data before the hub closes its connection.", "seconds", least=0.1
    )
    idle_timeout: float = setting(
        75.0,
        "How long a request may take to arrive, plus one second for each KiB; and how long a connection may be idle.",
        "seconds",
        least=0.1,
    )
    keepalive: float = setting(15.0, "How long a stream may be silent before the hub sends a comment.", "seconds")
    inspect: str = setting(
        "http",
        "What the page /inspect offers the operator: nothing, URLs only, or URLs and programs, which start on this"
        " machine.",
        choices=("off", "http", "programs"),
    )
    activity_days: float = setting(7.0, "How long the hub stores records of calls; 0 stores none.", "days")
    activity_size: int = setting(64 * 1024 * 1024, "Maximum total size of the stored records of calls.", "bytes")
    activity_contents: str = setting(
        "auto",
        "What a record has of arguments and results: up to 16 KiB of each (keep), only their CIDs (digest), or nothing"
        " (none). Auto means keep in personal mode (access), else digest.",
        choices=("auto", "keep", "digest", "none"),
    )
    audit: str = setting(
        "auto",
        "Whether every call gets a row in the audit chain, which can be exported and verified. Auto means on in shared"
        " mode (access), else off.",
        choices=("auto", "on", "off"),
    )
    audit_refusals: int = setting(
        60,
        "Refused calls of one caller in a minute that get a row in the audit chain; the others get one row together.",
        least=1,
    )
    audit_days: float = setting(
        365.0, "How long the hub stores rows of the audit chain; it deletes up to a signed head; 0 keeps all.", "days"
    )
    mount_hosts: tuple[str, ...] = setting(
        (), "Hosts at private addresses, such as 127.0.0.1, from which rooms may mount MCP servers, comma-separated."
    )
    issuer: str = setting(
        "", "URL of the authorization server whose access tokens the hub accepts, exactly as its metadata has it."
    )
    issuer_hosts: tuple[str, ...] = setting(
        (),
        "Hosts at private addresses, or without https, that the metadata of the issuer and of identity providers may"
        " name; comma-separated.",
    )
    assertion_issuers: tuple[str, ...] = setting(
        (),
        "URLs of identity providers whose identity assertions (ID-JAG) clients may exchange for tokens of this hub;"
        " comma-separated.",
    )
    audiences: tuple[str, ...] = setting(
        (), "Audiences of tokens that the hub accepts besides its own URLs, comma-separated."
    )
    required_scopes: tuple[str, ...] = setting((), "Scopes that every token must have, comma-separated.")
    groups_claim: str = setting(
        "groups", "The claim of a token that holds the groups; a dot leads into an object, as in realm_access.roles."
    )
    token_types: tuple[str, ...] = setting(
        ("at+jwt",),
        "Accepted values of the header typ of a signed token; JWT is for issuers that do not follow RFC 9068.",
        choices=("at+jwt", "JWT"),
    )
    introspection_id: str = setting(
        "", "Client id with which the hub asks the issuer about opaque tokens; empty accepts signed tokens only."
    )
    introspection_secret: str = setting(
        "",
        "Secret of this client, by reference to a variable of the hub's environment: '${INTROSPECTION_SECRET}'.",
        is_secret=True,
    )
    sign_in: tuple[str, ...] = setting(
        (),
        "Identity providers with which people sign in (OpenID Connect), as URL or NAME=URL, such as"
        " Acme=https://id.example.org, comma-separated; each URL exactly as the metadata of the provider has it.",
    )
    sign_in_client: tuple[str, ...] = setting(
        (), "Client id of this hub at each of these providers, as ID or NAME=ID, comma-separated."
    )
    sign_in_secret: tuple[str, ...] = setting(
        (),
        "Secret of this client, by reference to a secret of the hub, a file of secrets_dir or a variable:"
        " '${ACME_SECRET}' or 'Acme=${ACME_SECRET}', comma-separated; without one the client is public.",
        is_secret=True,
    )
    sign_in_scopes: tuple[str, ...] = setting(
        ("profile", "email", "offline_access"),
        "Scopes that the sign-in asks for besides openid; those that the metadata of a provider does not list are left"
        " out.",
    )
    sign_up: str = setting(
        "all",
        "Who gets an account at the first sign-in with an identity provider: everyone whom it lets in (all), or those"
        " whose verified e-mail address or subject was invited.",
        choices=("all", "invited"),
    )
    room_count: int = setting(1000, "Maximum number of rooms.", least=1)
    own_rooms: int = setting(20, "Maximum number of rooms that one caller creates.", least=1)
    room_members: int = setting(2000, "Maximum number of sessions in one room.", least=1)
    room_calls: int = setting(256, "Maximum number of open calls in one room.", least=1)
    room_tools: int = setting(2000, "Maximum number of tools of all servers in one room.", least=1)
    room_envelope_limit: int = setting(1024 * 1024, "Maximum size of an envelope in a room.", "bytes", least=1024)
    room_rate: float = setting(
        50.0, "How many envelopes one session may send to a room, on average.", "per second", least=0.1
    )
    room_log_limit: int = setting(256 * 1024 * 1024, "Maximum size of the log of one room.", "bytes", least=65536)
    room_replay: float = setting(
        300.0, "How long a room keeps what it does not log, such as partial results and streams.", "seconds", least=1
    )
    room_changes: str = setting(
        "auto",
        "What happens when a member of a room announces changed tools: hold withdraws them from MCP clients until the"
        " operator approves them, tell serves and reports them, follow serves them. Auto means tell in personal mode"
        " (access), else hold.",
        choices=("auto", "hold", "tell", "follow"),
    )
    room_idle: float = setting(
        60.0, "How long a session stays in its room without a connection and without a request.", "seconds", least=1
    )

    set_by: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """Where `load` found each value that is not the default: the name of the setting, and its option or variable."""

    @classmethod
    def rows(cls) -> tuple[Field[Any], ...]:
        """Return the rows of the table: the fields that are settings."""
        return tuple(row for row in fields(cls) if "help" in row.metadata)

    @classmethod
    def load(cls, given: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings from the command line, the environment and the defaults, in this order.

        `given` holds the values of the command line by name; None is absent. The folders become absolute paths, so that
        a later change of the working directory does not matter.

        Raises ConfigError with the name of the setting and the expected value.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        set_by: dict[str, str] = {}
        for row in cls.rows():
            variable, option = PREFIX + row.name.upper(), "--" + row.name.replace("_", "-")
            for name in filter(None, (row.metadata["alias"], variable)):
                if (text := environ.get(name)) is not None:
                    values[row.name], set_by[row.name] = converted(row, text, variable), name
            chosen = (given or {}).get(row.name)
            if chosen is not None:
                values[row.name], set_by[row.name] = converted(row, chosen, option), option
        for name in ("data", "servers"):
            if name in values:
                values[name] = values[name].expanduser().absolute()
        TrustedProxies(values.get("trusted_proxies", ()))
        values["path_prefix"] = choose_path_prefix(values.get("path_prefix", ""), values.get("public_url", ""))
        return cls(**values, set_by=tuple(set_by.items()))

    @property
    def is_loopback_only(self) -> bool:
        """Whether the hub listens on loopback, and `allowed_hosts` has loopback names only."""
        return is_loopback(self.host) and all(is_loopback_name(name) for name in self.allowed_hosts)

    @property
    def mode(self) -> str:
        """The mode of access: PERSONAL, SHARED or OPEN."""
        if self.access != "auto":
            return self.access
        return PERSONAL if self.is_loopback_only and not self.issuer and not self.sign_in else SHARED

    @property
    def is_audited(self) -> bool:
        """Whether the hub writes an audit chain.

        It does by default where several people call: only there a row says more than the record of the same call.
        """
        return self.mode == SHARED if self.audit == "auto" else self.audit == "on"

    def folder_of(self, server: str, configured: str | None = None) -> Path:
        """Return the folder for the files of a server. The folder may not exist yet.

        `configured` is the field `folder` of the server's configuration; `jane_dir` takes precedence over it.
        """
        chosen = (server == "jane" and self.jane_dir) or configured
        return Path(chosen).expanduser() if chosen else self.data / server


def suggest(name: str, value: str) -> None:
    """Set a variable that a library reads at its import, unless the environment has it already."""
    os.environ.setdefault(name, value)


def names_proxy() -> bool:
    """Whether the environment may name an HTTP proxy; `no_proxy` alone does not."""
    return any(
        name.lower().endswith("_proxy") and name.lower() != "no_proxy" and os.environ[name] for name in os.environ
    )


def sign_ins(environ: Mapping[str, str]) -> Path:
    """Return the folder of the tokens from signing in to other servers."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "patchbay" / "tokens"


def hub_places(settings: Settings) -> tuple[Path, ...]:
    """Return the folders and files of the hub itself, which no program of a stranger reads or changes."""
    own = [Path(place).expanduser() for place in (settings.key_file, settings.secrets_dir) if place]
    return (settings.data, sign_ins(whole_environment()), settings.servers, *own)


def environment(allowed: tuple[str, ...]) -> dict[str, str]:
    """Return the part of the environment that a child process may see."""
    return {name: os.environ[name] for name in allowed if name in os.environ}


def whole_environment() -> dict[str, str]:
    """Return the environment without the secrets of the hub that no configuration may name, for `${NAME}` in one."""
    return {name: value for name, value in os.environ.items() if name not in (GIVEN_KEY, REDIS_PASSWORD)}


def secret(name: str) -> str:
    """Return a secret in the environment: GIVEN_KEY or REDIS_PASSWORD; empty without one."""
    return os.environ.get(name, "")


def adopt(variables: Mapping[str, str]) -> None:
    """Add variables to the environment of this process: of a worker process, before it loads a definition."""
    os.environ.update(variables)


def forget_request_variables() -> None:
    """Remove the variables that look like parts of a request, because WSGI adds the environment to every request.

    Else `HTTP_ORIGIN` in the shell would become a header. A proxy still works: libraries read `http_proxy` first.
    """
    if "HTTP_PROXY" in os.environ:
        os.environ.setdefault("http_proxy", os.environ["HTTP_PROXY"])
    for name in list(os.environ):
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_USER", "AUTH_TYPE"):
            del os.environ[name]
