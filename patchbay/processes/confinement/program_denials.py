"""Says why a confined program was refused something, and the line of its configuration that allows it.

A program says only `EACCES: permission denied, open '/srv/notes/a'`: its author cannot know that the hub is the
reason. What a program prints is text of a stranger, so no line is proposed for a place that gives it much: a home
folder, a folder of the system, a private place, or the hub itself.

Sources: errno(3); the messages of Node, Python, Rust and the usual commands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path

from patchbay.processes.confinement.denials import READS, WRITES, suggestion
from patchbay.processes.confinement.paths import KERNEL_FOLDERS
from patchbay.processes.confinement.private_places import find_home, find_private_places
from patchbay.processes.confinement.programs import BROWSER, TMP, ProgramConfinement, is_within, resolve_place
from patchbay.processes.confinement.protections import NAMESPACES
from patchbay.processes.confinement.started_places import find_started_places
from patchbay.processes.egress.egress_list import is_address, is_private_name, is_this_machine, write_destination
from patchbay.processes.egress.egress_records import HostRecord

MAX_SEARCHED_CHARACTERS = 20_000
"""Characters of a message that are searched."""

MAX_REFUSED_HOSTS = 5
"""Hosts that one message names."""

MIN_PARTS = 3
"""Parts of a path, `/` included, below which a folder is one of the system: no line is proposed for it."""

SYSTEM_FOLDERS = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/var/lib", "/var/spool", "/opt", "/run")

_PATH = r"['\"‘`]((?:/|~/)[^'\"’`\n]{1,1000})['\"’`]"
_REFUSED = (
    re.compile(rf"(?:EACCES|EPERM|EROFS)\b[^'\"\n]{{0,100}}{_PATH}"),
    re.compile(rf"\[Errno (?:1|13|30)\][^'\"\n]{{0,100}}{_PATH}"),
    re.compile(rf"(?:os error (?:1|13|30)|(?i:permission denied|read-only file system))[^'\"\n]{{0,60}}{_PATH}"),
    re.compile(r"['\"‘]?((?:/|~/)[^'’\":\n]{1,1000})['\"’]?: (?:[Pp]ermission denied|Read-only file system)"),
)
_MISSING = (
    re.compile(rf"ENOENT\b[^'\"\n]{{0,100}}{_PATH}"),
    re.compile(rf"\[Errno 2\][^'\"\n]{{0,100}}{_PATH}"),
    re.compile(r"['\"‘]?((?:/|~/)[^'’\":\n]{1,1000})['\"’]?: No such file or directory"),
)
_NO_SANDBOX = re.compile(r"Chromium sandboxing failed|No usable sandbox|as root without --no-sandbox")
"""What Chromium, and Playwright about it, say where it cannot make the namespaces of its sandbox."""


def explain_denial(confinement: ProgramConfinement, text: str) -> str:
    """Return what the program may do, and the line that allows what it was refused; empty if the hub refused nothing.

    `text` is what the program said.
    """
    if not confinement.is_on:
        return ""
    text = text[:MAX_SEARCHED_CHARACTERS]
    sentences = (_explain(_explain_refusal, confinement, one) for one in _find(_REFUSED, text))
    missing = (_explain(_explain_missing, confinement, one) for one in _find(_MISSING, text))
    browser = explain_browser(confinement, text, os.geteuid() == 0)
    return next(filter(None, (*sentences, *missing, browser)), "")


def explain_browser(confinement: ProgramConfinement, text: str, is_root: bool) -> str:
    """Return what helps a program whose Chromium made no sandbox of its own; empty for another text.

    `is_root` says whether the program runs as root. Source: chromium/src, content/browser/zygote_host.
    """
    if not confinement.is_on or not _NO_SANDBOX.search(text):
        return ""
    why = "for root" if is_root else "below Landlock alone" if NAMESPACES not in confinement.names else ""
    elsewhere = ", or run the hub as an ordinary user" if is_root else ""
    if why:
        return (
            f"Chromium makes no sandbox of its own {why}: add the option of {confinement.name} that starts it without"
            f" one, such as --no-sandbox (the hub confines the program and its browser){elsewhere}."
        )
    return _add(confinement, f'"needs": "{BROWSER}"') if confinement.permissions.needs != BROWSER else ""


def explain_refused_hosts(confinement: ProgramConfinement, since: float) -> str:
    """Return which hosts the program was refused since a time (Unix time, seconds), and the lines that allow them.

    Empty if none was refused.
    """
    found = confinement.records.refused_since(since)
    return "\n".join(explain_refused_host(confinement, one) for one in found[:MAX_REFUSED_HOSTS])


def explain_refused_host(confinement: ProgramConfinement, record: HostRecord) -> str:
    """Return a sentence about a host that a program was refused, with the line that allows it where there is one."""
    name, asked = confinement.name, write_destination(record.host, record.port)
    if record.missing is None:
        return f"{name} may not reach {asked}: {record.reason}."
    line = write_destination(*record.missing)
    if record.missing != (record.host, record.port):
        asked = f"{asked}, which leads to the {record.reason}"
    if not is_public_host(record.missing[0]):
        return (
            f'{name} may not reach {asked}: "network" in its configuration does not name {line}. No line is proposed'
            " for a place of this machine or of a private network: the operator has to write it."
        )
    return (
        f'{name} may not reach {asked}. To allow this, the operator adds "{line}" to "network" in'
        f" {_configuration_of(confinement)}."
    )


def _configuration_of(confinement: ProgramConfinement) -> str:
    """Return where the configuration of a program is changed. One of a file with several servers has no page for it."""
    name, file = confinement.name, confinement.file or f"{confinement.name}.json"
    if file != f"{name}.json":
        return f"the entry of {name} in the file servers/{file}"
    return f"the configuration of {name}: on the page /servers/{name}/settings, or in the file servers/{file}"


def is_public_host(host: str) -> bool:
    """Whether a host is neither this machine nor known to be in a private network."""
    if is_address(host):
        return ip_address(host).is_global
    return not is_this_machine(host) and not is_private_name(host)


def _find(patterns: tuple[re.Pattern[str], ...], text: str) -> Iterator[str]:
    for pattern in patterns:
        yield from (found[1] for found in pattern.finditer(text))


def _explain(explain: Callable[[ProgramConfinement, Path], str], confinement: ProgramConfinement, path: str) -> str:
    """Return the sentence of `explain` about a path that a program has printed; empty for a text that is no path."""
    try:
        return explain(confinement, resolve_place(path, confinement.environ))
    except (OSError, ValueError):  # too long a name, a NUL, half a surrogate pair, or the hub may not look there
        return ""


def _explain_refusal(confinement: ProgramConfinement, place: Path) -> str:
    private = _explain_private(confinement, place)
    if private:
        return private
    paths = confinement.allowed_paths()
    if is_within(place, (*paths.own, *paths.writes)) or is_within(place, KERNEL_FOLDERS):
        return ""
    folder = next((one for one in (place, *place.parents) if one.is_dir()), Path("/"))
    if not os.access(place if place.exists() else folder, os.W_OK):
        return ""  # the permissions of the file are the reason
    if not is_proposable(folder, confinement.environ, confinement.places.hidden):
        return confinement.sentence
    return _add(confinement, suggestion(folder))


def _explain_private(confinement: ProgramConfinement, place: Path) -> str:
    """Return a sentence about a place that is hidden from the program; empty for another one."""
    if is_within(place, [one.resolve() for one in confinement.places.hidden]):
        own = confinement.own_folder.resolve()
        return "" if place.is_relative_to(own) else "No mounted program may use the files of the hub itself."
    hidden = next((one for one in confinement.hidden_places() if place.is_relative_to(one)), None)
    if hidden is None or not os.path.lexists(place):
        return ""
    return _add(confinement, suggestion(place, READS))


def _explain_missing(confinement: ProgramConfinement, place: Path) -> str:
    """Return a sentence about a place that the program does not see, though it is there.

    One that is not there is to be made in a folder that the program does not see.
    """
    paths = confinement.allowed_paths()
    folder = next((one for one in (place, *place.parents) if one.is_dir()), TMP)
    is_open = is_within(place, (*paths.own, *paths.writes, *paths.shown))
    if NAMESPACES not in confinement.names or not place.is_relative_to(TMP) or is_open:
        return _explain_private(confinement, place)
    if folder != TMP:
        return _add(confinement, suggestion(folder, READS if place.exists() else WRITES))
    return _add(confinement, suggestion(place, READS)) if place.is_file() else ""


def _add(confinement: ProgramConfinement, line: str) -> str:
    name = confinement.name
    if confinement.is_typed:
        return f"{name} is confined. {confinement.sentence} To allow this, add {_option(line)} to the command."
    return (
        f"{name} is confined. {confinement.sentence} To allow this, the operator adds {line} to"
        f" {_configuration_of(confinement)}."
    )


def _option(line: str) -> str:
    """Return a line of a configuration, `"writes": ["~/notes"]`, as the option of a command."""
    found = json.loads(f"{{{line}}}")
    each = [(name, one) for name, value in found.items() for one in ([value] if isinstance(value, str) else value)]
    return " ".join(f"--{name} {shlex.quote(one)}" for name, one in each)


def is_proposable(folder: str | Path, environ: Mapping[str, str], hub: Iterable[Path]) -> bool:
    """Whether a line may open a place: not the home folder, one of the system, or one above private places.

    `hub` are the places of the hub itself: neither they nor a folder above one are proposed. So it is with folders of
    programs that the user or the hub starts. A folder with a socket, such as those of agents in /tmp, is not proposed
    either. `environ` has HOME and PATH.
    """
    try:
        place = resolve_place(str(folder), environ)
    except ValueError:
        return False
    home = find_home(environ).resolve()
    private = (*find_private_places(environ), *find_started_places(environ), *(one.resolve() for one in hub))
    above = home.is_relative_to(place) or any(one.is_relative_to(place) for one in private)
    closed = (*private, *KERNEL_FOLDERS, *map(Path, SYSTEM_FOLDERS))
    return len(place.parts) >= MIN_PARTS and not above and not is_within(place, closed) and not _has_socket(place)


def _has_socket(place: Path) -> bool:
    """Whether a place is a socket or a folder with one; a folder that cannot be read may have one."""
    try:
        return place.is_socket() or (place.is_dir() and any(one.is_socket() for one in place.iterdir()))
    except OSError:
        return True
