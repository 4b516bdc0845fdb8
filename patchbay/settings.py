"""Every setting: name, default, sentence. The command line, the environment and the docs come from this table.

A setting `inline_limit` is `--inline-limit` on the command line and `PATCHBAY_INLINE_LIMIT` in the
environment; the command line wins. Only this file reads the environment.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from patchbay.assets import HOME
from patchbay.errors import ConfigError

PREFIX = "PATCHBAY_"
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _setting(
    default: Any,
    help: str,
    unit: str = "",
    least: float = 0,
    most: float = math.inf,
    choices: tuple[str, ...] = (),
    alias: str = "",
) -> Any:
    limits = {"least": least, "most": most, "choices": choices, "alias": alias}
    return field(default=default, metadata={"help": help, "unit": unit, **limits})


@dataclass(frozen=True, slots=True)
class Settings:
    """The hub's settings; `Settings.load` reads them, tests pass what they need."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(8000, "Port to listen on.", most=65535)
    data: Path = _setting(HOME / "data", "Folder of the database and the hub's own key.")
    jane_dir: str = _setting(
        "",
        "Folder of the documents of the server jane; `jane` in the data folder when empty. `JANE_DIR` says the same.",
        alias="JANE_DIR",
    )
    servers: Path = _setting(HOME / "servers", "Folder that is watched for drop-in servers.")
    boot: str = _setting("default", "Boot image: a name in reference_templates/, a path, or a CID in the store.")
    enable: tuple[str, ...] = _setting(
        (), "Shipped servers that are off, to switch on: everything, bash, claudecode; comma-separated."
    )
    workers: int = _setting(1, "Web worker processes.", least=1, most=1024)
    threads: int = _setting(
        256,
        "Threads in each worker; a call and its stream hold one, a stream that only listens holds none.",
        least=1,
        most=65536,
    )
    store: str = _setting(
        "sqlite", "Where the hub remembers: in the data folder, or in memory only.", choices=("sqlite", "memory")
    )
    allowed_hosts: tuple[str, ...] = _setting(
        ("localhost", "127.0.0.1", "[::1]"), "Host names that requests may name, comma-separated."
    )
    allowed_origins: tuple[str, ...] = _setting(
        (), "Origins beside the hub's own that browsers may call from, such as https://app.example, comma-separated."
    )
    access: str = _setting(
        "personal",
        "Who may look and call tools: everybody on this machine, or everybody who reaches the hub.",
        choices=("personal", "open"),
    )
    log_level: str = _setting("info", "Least level that is logged.", choices=("debug", "info", "warning", "error"))
    log_format: str = _setting("auto", "Auto is console on a terminal, else json.", choices=("auto", "console", "json"))
    timeout: float = _setting(30.0, "How long a call may take unless its server says otherwise.", "seconds")
    isolation: str = _setting(
        "process",
        "Where Python definitions run unless their server says otherwise: in a process, or in the hub.",
        choices=("process", "inline"),
    )
    protections: tuple[str, ...] = _setting(
        ("landlock", "namespaces", "privacy"),
        "What protects the hub from its own tools, of the three that there are, where the machine has it;"
        " comma-separated, and empty for nothing.",
        choices=("landlock", "namespaces", "privacy"),
    )
    writes: tuple[str, ...] = _setting(
        (), "Folders that the code of every server may change beside its own, such as ~/notes, comma-separated."
    )
    hosts: int = _setting(64, "Most processes in each worker that run Python definitions, one call each at a time.")
    hosts_idle: float = _setting(60.0, "How long such a process is kept that nobody needs.", "seconds")
    memory: int = _setting(
        512, "Memory that each process of a definition may fill unless its server says otherwise.", "MiB"
    )
    drain: float = _setting(25.0, "How long running calls may go on after SIGTERM.", "seconds")
    body_limit: int = _setting(4 * 1024 * 1024, "Largest request body.", "bytes")
    bodies_limit: int = _setting(
        12 * 1024 * 1024,
        "Most that all request bodies above 16 KiB may have together in each worker while their requests are in work.",
        "bytes",
    )
    connections: int = _setting(
        1024,
        "Most connections that one address may have open in each worker; three quarters of its descriptors where that"
        " is less.",
        least=1,
    )
    inline_limit: int = _setting(256 * 1024, "Largest text in a result; the rest becomes a link.", "bytes")
    result_minutes: float = _setting(60.0, "How long a text is kept that is too large for a result.", "minutes")
    result_size: int = _setting(
        64 * 1024 * 1024, "Most that such texts of one caller take; the oldest give way.", "bytes"
    )
    read_limit: int = _setting(8 * 1024 * 1024, "Largest resource that is read.", "bytes")
    page_size: int = _setting(50, "Entries on one page of a list.", least=1, most=10_000)
    listeners: int = _setting(
        10_000,
        "Most open listening streams in each worker; replays, the streams of 2024-11-05 and WebSockets count too.",
    )
    blob_hours: float = _setting(
        24.0,
        "How long content is kept that nothing refers to: uploads, and past values that tools stored.",
        "hours",
        least=1,
    )
    session_hours: float = _setting(24.0, "How long a session id is valid.", "hours")
    replay_minutes: float = _setting(60.0, "How long the events of a stream are kept for replay.", "minutes")
    replay_size: int = _setting(
        8 * 1024 * 1024, "Most that the progress and log messages of one stream take for replay.", "bytes"
    )
    tasks: int = _setting(64, "Most tasks that run at once in each worker.", least=1, most=65536)
    task_minutes: float = _setting(
        60.0, "How long a task may run, and its result is kept after that.", "minutes", least=0.1
    )
    write_timeout: float = _setting(
        30.0, "How long a reader may take nothing of what there is for it before it is cut off.", "seconds", least=0.1
    )
    idle_timeout: float = _setting(
        75.0,
        "How long a request may take to arrive, with a second more for each KiB, and a connection may be idle.",
        "seconds",
        least=0.1,
    )
    keepalive: float = _setting(15.0, "Longest silence on an open stream before a comment is sent.", "seconds")
    inspect: str = _setting(
        "http",
        "What the operator may reach from the page /inspect: nothing, URLs, or programs too, which start on this"
        " machine.",
        choices=("off", "http", "programs"),
    )
    activity_days: float = _setting(7.0, "How long the records of calls are kept; 0 keeps none.", "days")
    activity_size: int = _setting(64 * 1024 * 1024, "Most that the records of calls take in the store.", "bytes")
    activity_contents: str = _setting(
        "auto",
        "What a record holds of arguments and results: all up to 16 KiB each, their CIDs, or nothing."
        " Auto is keep in personal mode (access), else digest.",
        choices=("auto", "keep", "digest", "none"),
    )

    mount_hosts: tuple[str, ...] = _setting(
        (),
        "Hosts that rooms may mount MCP servers from although their addresses are not public, such as 127.0.0.1,"
        " comma-separated.",
    )
    room_count: int = _setting(1000, "Most rooms of the hub.", least=1)
    room_members: int = _setting(2000, "Most sessions that are in one room at once.", least=1)
    room_calls: int = _setting(256, "Most calls that are open in one room at once.", least=1)
    room_tools: int = _setting(2000, "Most tools that all servers of one room have together.", least=1)
    room_envelope_limit: int = _setting(1024 * 1024, "Largest envelope that a room takes.", "bytes", least=1024)
    room_rate: float = _setting(
        50.0, "How many envelopes one session may send to a room, on average.", "each second", least=0.1
    )
    room_log_limit: int = _setting(256 * 1024 * 1024, "Most that the log of one room takes.", "bytes", least=65536)
    room_replay: float = _setting(
        300.0, "How long a room keeps what it does not log, such as partials and streams.", "seconds", least=1
    )
    room_idle: float = _setting(
        60.0, "How long a session without a connection stays in its room, and a lost one.", "seconds", least=1
    )

    @classmethod
    def load(cls, given: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings from the command line (`given`: name to value, None is absent) over the environment over defaults.

        The folders come out as absolute paths, whatever the working directory becomes later.

        Raises ConfigError naming the setting and what it has to be.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for row in fields(cls):
            text = environ.get(PREFIX + row.name.upper())
            if text is None and row.metadata["alias"]:
                text = environ.get(row.metadata["alias"])
            if text is not None:
                values[row.name] = converted(row, text, PREFIX + row.name.upper())
            chosen = (given or {}).get(row.name)
            if chosen is not None:
                values[row.name] = converted(row, chosen, "--" + row.name.replace("_", "-"))
        for name in ("data", "servers"):
            if name in values:
                values[name] = values[name].expanduser().absolute()
        return cls(**values)

    def folder_of(self, server: str) -> Path:
        """The folder for files of a server's own; it need not be there yet."""
        return Path(self.jane_dir).expanduser() if server == "jane" and self.jane_dir else self.data / server


def converted(row: Field[Any], value: Any, where: str) -> Any:
    """A setting's value in its type, from text or from a value of that type. Raises ConfigError."""
    if not isinstance(value, str):
        return value
    kind: type[Any] = type(row.default)
    try:
        if kind is tuple:
            parts = tuple(part.strip() for part in value.split(",") if part.strip())
            for part in parts:
                _check(row.metadata, part, where)
            return parts
        if kind in (int, float) and kind(value) < 0:
            raise ValueError("negative")
        value = kind(value)
    except ValueError as problem:
        expected = {int: "a whole number, 0 or more", float: "a number, 0 or more"}.get(kind, "a value")
        raise ConfigError(where, "", f"expected {expected}, got {value!r}") from problem
    _check(row.metadata, value, where)
    return value


def _check(limits: Mapping[str, Any], value: Any, where: str) -> None:
    # The comparison is written so that "not a number", which is neither, is refused.
    if isinstance(value, (int, float)) and not limits["least"] <= value <= limits["most"]:
        expected = f"expected a number from {limits['least']} to {limits['most']:g}"
        raise ConfigError(where, "", f"{expected}, got {value}")
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError(where, "", f"expected one of {', '.join(limits['choices'])}; got {value!r}")


def suggest(name: str, value: str) -> None:
    """Set a variable that a library reads when it is loaded, unless whoever started this process did."""
    os.environ.setdefault(name, value)


def names_proxy() -> bool:
    """Whether the environment may name a proxy for HTTP; `no_proxy` alone names none."""
    return any(
        name.lower().endswith("_proxy") and name.lower() != "no_proxy" and os.environ[name] for name in os.environ
    )


def sign_ins(environ: Mapping[str, str]) -> Path:
    """The folder of the tokens that signing in to other servers gave."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "patchbay" / "tokens"


def environment(allowed: tuple[str, ...]) -> dict[str, str]:
    """The part of the environment that a child process may see."""
    return {name: os.environ[name] for name in allowed if name in os.environ}


def whole_environment() -> dict[str, str]:
    """The environment as it is now: for what an operator's configuration names in it, and for what clients inherit."""
    return dict(os.environ)


def resolved(given: Mapping[str, str], where: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for a child process, as a configuration gives them: `where` is its server.

    `${NAME}` stands for a variable of the hub's own, `${NAME:-text}` for `text` where that is not set or empty.
    What comes out empty is left out. Raises ConfigError naming a variable that is not set (J-F3).
    """
    environ = os.environ if environ is None else environ
    values = {key: _expanded(text, f"environment.{key}", where, environ) for key, text in given.items()}
    return {key: value for key, value in values.items() if value}


def _expanded(text: str, path: str, where: str, environ: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, instead = found.groups()
        if instead is not None:
            return environ.get(name) or str(instead)
        if name not in environ:
            raise ConfigError(where, path, f"expected the hub's environment to have {name}, and it has not")
        return environ[name]

    return REFERENCE.sub(value, text)


def adopt(variables: Mapping[str, str]) -> None:
    """Put variables into this process's own environment: a host's, before it knows any definition."""
    os.environ.update(variables)


def forget_request_variables() -> None:
    """Take what looks like a part of a request out of the environment: the web server lays it under every request.

    An `HTTP_ORIGIN` of the shell would otherwise be an `Origin` that no client sent (THREATS M14). The proxy keeps
    working: libraries read `http_proxy` first.
    """
    if "HTTP_PROXY" in os.environ:
        os.environ.setdefault("http_proxy", os.environ["HTTP_PROXY"])
    for name in list(os.environ):
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_USER", "AUTH_TYPE"):
            del os.environ[name]
