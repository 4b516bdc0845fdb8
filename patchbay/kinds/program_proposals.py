"""Propose what a program needs to be allowed, by what its command line and its variables name.

A person who writes `server-filesystem /home/me/notes` means that the program uses this folder. So the lines that open
what is named are proposed, and no others: everything else of the machine is readable anyway, and not changed. Whether
a folder is to be changed or only read is a guess by the name of the package, of the option or of the variable; without
a sign of writing, reading is enough. A line that would open too much is never proposed, and the reason is said.

Nothing is started here, and nothing is asked.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from patchbay.client.addresses.programs import is_launched, name_program
from patchbay.client.addresses.targets import Stdio
from patchbay.processes.confinement.paths import KERNEL_FOLDERS
from patchbay.processes.confinement.private_places import RUN_FOLDERS, find_home, find_private_places
from patchbay.processes.confinement.program_denials import MIN_PARTS, is_proposable
from patchbay.processes.confinement.programs import BROWSER, TMP, is_there, is_within, resolve_place
from patchbay.processes.confinement.started_places import find_started_places

MAX_PATH_CHARACTERS = 4095
MAX_NAMED_PLACES = 50
"""Places of one program that are looked at."""

_WRITING = frozenset(
    (
        *("filesystem", "files", "file", "fs", "memory", "sqlite", "duckdb", "db", "database", "git", "obsidian"),
        *("notes", "note", "vault", "store", "storage", "data", "output", "out", "outputs", "log", "logs", "cache"),
        *(
            "workspace",
            "repository",
            "repo",
            "save",
            "download",
            "downloads",
            "export",
            "state",
            "persist",
            "commander",
        ),
        *("editor", "write", "writable", "knowledge", "graph", "kuzu", "chroma", "lancedb", "history", "profile"),
    )
)
"""Words in the name of a package, an option or a variable that say that the program changes what is named."""

_READING = frozenset(("config", "cert", "ca", "key", "schema", "spec", "openapi", "input", "source", "template", "env"))
"""Words in the name of an option or a variable that say that the program only reads what is named."""

_PROJECT = frozenset(("directory", "project"))
"""Words of the options of uv that name a project."""

_NAMED_BY_CALLS = frozenset(
    (
        *("filesystem", "files", "file", "fs", "editor", "git", "obsidian", "notebook", "jupyter", "commander"),
        *("excel", "xlsx", "spreadsheet", "csv", "word", "docx", "powerpoint", "pptx", "ppt", "office"),
        *("pdf", "document", "documents", "pandoc", "markdown"),
    )
)
"""Words in the name of a package that say that its calls name files of the user."""

_DATA_FILE = re.compile(r"(?i)\.(db|sqlite3?|duckdb|kuzu|jsonl|log)$")
_BROWSER = re.compile(r"(?i)playwright|puppeteer|chrome|browser-?use|selenium")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ENGINES = frozenset(("docker", "podman", "nerdctl"))
_WORD = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a program needs: `fields` are those of a mount, empty when it needs none.

    `reasons` says of each line why, `optional` are lines that the user may want and that are not proposed, with the
    reason, and `refused` says what is named and not proposed. `hint` is a sentence about files that only calls of the
    program name; empty where a line opens a folder, or where no such files are known of.
    """

    fields: Mapping[str, Any]
    reasons: tuple[str, ...] = ()
    optional: tuple[tuple[Mapping[str, Any], str], ...] = ()
    refused: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Named:
    """A text that may be a path: where it is written, and the words that say what it is for.

    `variable` is the name of the variable whose value it is; empty for an argument.
    """

    text: str
    where: str
    words: frozenset[str]
    variable: str = ""

    @property
    def is_argument(self) -> bool:
        """Whether it is a word of the command line."""
        return not self.variable


def propose(
    target: Stdio,
    environ: Mapping[str, str],
    hub: Iterable[Path],
    folder: Path,
    variables: Collection[str] | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Proposal:
    """Return what a program needs. `hub` are the places of the hub, `folder` is where relative paths begin.

    With `variables`, only the values of these variables count, and no argument. `given` are fields of its mount: what
    they open already is not proposed.
    """
    found = _Proposer(target, environ, tuple(hub), folder, given)
    named = [one for one in _list_named(target) if variables is None or one.variable in variables]
    if target.cwd and variables is None:
        named.append(_Named(str(folder / target.cwd), "its working folder", frozenset()))
    for one in named[:MAX_NAMED_PLACES]:
        with suppress(OSError, ValueError):  # too long a name, half a surrogate pair, or the hub may not look there
            found.look_at(one)
    return found.result()


def with_proposal(fields: Mapping[str, Any], proposal: Proposal) -> dict[str, Any]:
    """Return the definition of a mount with the proposed lines. What it says itself stays."""
    merged = dict(fields)
    for name, value in proposal.fields.items():
        if isinstance(value, list):
            merged[name] = list(dict.fromkeys([*fields.get(name, ()), *value]))
        else:
            merged.setdefault(name, value)
    return merged


class _Proposer:
    """Collects the lines for one program."""

    def __init__(
        self,
        target: Stdio,
        environ: Mapping[str, str],
        hub: Sequence[Path],
        folder: Path,
        given: Mapping[str, Any],
    ) -> None:
        self._target = target
        self._given = given
        self._environ = environ
        self._hub = hub
        self._base = Path(folder / target.cwd) if target.cwd else folder
        self._name = name_program(target)
        self._package_words = _words(self._name)
        self._writes: dict[str, str] = {}
        self._reads: dict[str, str] = {}
        self._optional: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def look_at(self, one: _Named) -> None:
        """Decide about one text that may be a path."""
        text = _path_in(_expand(one.text, self._environ))
        if not _looks_like_path(text, self._base if one.is_argument else None):
            return
        place = resolve_place(str(self._base / text) if not text.startswith("~") else text, self._environ)
        shown = text if text.startswith(("/", "~")) else str(place)
        if _is_socket(place):
            self._refuse(shown, one, "a socket may give power over the whole machine")
            return
        if is_within(place, [one.resolve() for one in self._hub]):  # also where it is not there yet
            self._refuse(shown, one, self._why_not(place))
            return
        opened = self._opened(place, one)
        if opened is None or self._is_given("writes", opened):
            return
        named = shown
        if opened != place:
            shown = str(PurePath(shown).parent)
        reason = self._why_not(opened)
        if reason:
            self._refuse(shown, one, reason + self._other_place(named, place, opened))
        elif self._is_changed(place, one):
            self._writes.setdefault(shown, f"{one.where} names it")
        elif is_within(opened, (TMP,)) and not one.is_argument and not self._is_given("reads", opened):
            self._reads.setdefault(shown, f"{one.where} names it, and other programs' /tmp is hidden")
        elif opened.is_dir():
            self._optional.setdefault(shown, f"{one.where} names it; it is read")

    def _opened(self, place: Path, one: _Named) -> Path | None:
        """Return what a line has to open for a place; None where there is nothing to open.

        The file of a database needs its folder, where the database puts other files beside it.
        """
        if place.is_dir():
            return place
        is_data = bool(_DATA_FILE.search(place.name)) or not is_there(place)
        if is_there(place) and not (is_data or self._is_changed(place, one)):
            return place if is_within(place, (TMP, *find_private_places(self._environ))) else None
        is_near_root = len(place.parts) < MIN_PARTS and not is_there(place)  # such as the option `--prefix /api`
        return place.parent if place.parent.is_dir() and not is_near_root else None

    def _is_changed(self, place: Path, one: _Named) -> bool:
        if one.words & _PROJECT and PurePath(self._target.command).name == "uv":
            return True  # uv keeps the environment of a project in it
        if one.words & _READING and not one.words & _WRITING:
            return False
        if place.is_dir():
            return bool(one.words & _WRITING or (self._package_words & _WRITING and one.is_argument))
        return bool(_DATA_FILE.search(place.name) or one.words & _WRITING)

    def _is_given(self, name: str, place: Path) -> bool:
        """Whether a line that the mount has opens a place."""
        return is_within(place, [resolve_place(str(one), self._environ) for one in self._given.get(name, ())])

    def _other_place(self, named: str, place: Path, opened: Path) -> str:
        """Return what the user can do where the folder of what is named is not opened; empty for a folder."""
        if opened == place:
            return ""
        if is_there(place):
            return f". Put {named} into a folder of its own, and name it there"
        return f". {named} is not there: if it is a folder, make it; if it is a file, name one in a folder of its own"

    def _why_not(self, place: Path) -> str:
        """Return why no line is proposed for a place; empty for one that may be proposed."""
        if is_proposable(place, self._environ, self._hub):
            return ""
        home = find_home(self._environ).resolve()
        hub = [one.resolve() for one in self._hub]
        if is_within(place, hub):
            return "it belongs to the hub itself, and nothing opens it"
        if any(one.is_relative_to(place) for one in hub):
            return "the files of the hub are in it"
        if home.is_relative_to(place):
            return "it holds the whole home folder: name the folder in it that the program needs"
        if is_within(place, find_private_places(self._environ)):
            return "it is a private place; if the program is to use it, write the line yourself"
        if is_within(place, [*KERNEL_FOLDERS, *map(Path, RUN_FOLDERS)]):
            return "it controls the machine"
        started = find_started_places(self._environ)
        if is_within(place, started) or any(one.is_relative_to(place) for one in started):
            return "programs that you or the hub start come from it; to open it, write the line yourself"
        return "it is a folder of the system, or holds private places"

    def _refuse(self, shown: str, one: _Named, reason: str) -> None:
        self._refused.setdefault(shown, f"{shown} ({one.where}) is not proposed: {reason}")

    def result(self) -> Proposal:
        """Return what was found."""
        fields: dict[str, Any] = {}
        reasons: list[str] = []
        for name, found in (("writes", self._writes), ("reads", self._reads)):
            if found:
                fields[name] = list(found)
                reasons += [f"{name} {place}: {why}" for place, why in found.items()]
        words = [word for word in self._target.args if not word.startswith(("/", "~", ".", "-"))]
        if any(map(_BROWSER.search, words)) and self._given.get("needs") != BROWSER:
            fields["needs"] = BROWSER
            reasons.append(f"needs {BROWSER}: {self._name} starts one")
        optional = [({"writes": [one]}, why) for one, why in self._optional.items() if one not in self._writes]
        refused = (*self._refused.values(), *self._engine())
        return Proposal(fields, tuple(reasons), tuple(optional), refused, "" if refused or optional else self._hint())

    def _hint(self) -> str:
        """Return what to do about files that only calls name; empty where a line opens a folder."""
        if self._writes or self._given.get("writes") or not self._package_words & _NAMED_BY_CALLS:
            return ""
        return (
            f"Calls of {self._name} may name files of yours, and nothing here names a folder with them. It changes only"
            ' its own folder: to let it change one of yours, add "writes": ["FOLDER"]'
        )

    def _engine(self) -> Iterator[str]:
        name = PurePath(self._target.command).name
        if name in _ENGINES:
            yield (
                f"{name} is not opened: who reaches its socket has all rights of the machine. Mount the package of npm"
                ' or PyPI, or write "confine": "off" yourself'
            )


def _list_named(target: Stdio) -> Iterator[_Named]:
    """Yield the texts of a command line and of variables that may be paths."""
    words = list(target.args)
    start = 0 if is_launched(target) or _is_package_runner(target) else _skip_script(words)
    for before, word in pairwise(["", *words]):
        if start > 0:
            start -= 1
            continue
        name, equals, value = word.partition("=")
        option = name if equals and word.startswith("-") else before if before.startswith("-") else ""
        where = f"the option {option}" if option else "an argument"
        yield _Named(value if equals and word.startswith("-") else word, where, _words(option))
    for name, value in target.env.items():
        yield _Named(value, f"the variable {name}", _words(name), name)


def _skip_script(words: Sequence[str]) -> int:
    """Return how many words at the beginning are the program itself: an interpreter reads its script anyway."""
    plain = next((place for place, word in enumerate(words) if not word.startswith("-")), None)
    return (
        plain + 1 if plain is not None and PurePath(words[plain]).suffix in (".py", ".js", ".mjs", ".cjs", ".ts") else 0
    )


def _is_package_runner(target: Stdio) -> bool:
    return PurePath(target.command).name in ("uv", "pnpm", "yarn", "pipx", "deno")


def _words(name: str) -> frozenset[str]:
    """Return the words of a name: `--db-path`, `MEMORY_FILE_PATH`, `server-filesystem`."""
    return frozenset(word.lower() for word in _WORD.findall(name))


def _expand(text: str, environ: Mapping[str, str]) -> str:
    """Return a text with the variables that the environment has."""
    return _REFERENCE.sub(lambda found: environ.get(found[1], found[2] or ""), text)


def _path_in(text: str) -> str:
    """Return the path of a `file:` or `sqlite:` URL; another text as it is."""
    scheme, sign, rest = text.partition(":///")
    if not sign:
        return text
    if scheme == "file":
        return unquote(urlsplit(text).path)
    return f"/{rest.lstrip('/')}".partition("?")[0] if scheme.startswith(("sqlite", "duckdb", "kuzu")) else text


def _looks_like_path(text: str, base: Path | None) -> bool:
    """Whether a text names a place: an absolute path, or a relative one that is in the folder `base`.

    Another relative path is a path in the folder of the program itself.
    """
    if not text or len(text) > MAX_PATH_CHARACTERS or "\0" in text or "://" in text:
        return False
    if text.startswith(("/", "~/")) or text == "~":
        return True
    is_relative = ("/" in text or text in (".", "..") or bool(_DATA_FILE.search(text))) and not text.startswith("@")
    return base is not None and is_relative and is_there(base / text)


def _is_socket(place: Path) -> bool:
    try:
        return stat.S_ISSOCK(place.stat().st_mode)
    except OSError:
        return False
