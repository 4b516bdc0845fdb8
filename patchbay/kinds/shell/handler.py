"""Shell definitions as tools. Arguments become whole elements of an argument vector, never a shell string.

Two forms of definition (V-F11):

    @bash_command jq -r      one program; `args` is handed over whole, as its one last argument (`_`: none)
    anything else            a script, run by its shebang's interpreter or by bash, with `args` as $1 ... $9

A static tool may say `"argv": ["--max={n}", "{file}"]`: each placeholder takes the argument of that
name, an element whose argument is not given is left out, a list in an element of its own becomes
several elements, and `{{` is a brace. A tool with a single property of another name uses it as `args`.
A value may begin with `-`; a definition that minds puts `--` before it.
`input` is stdin. A child sees its arguments, stdin, an empty folder of its own and the few variables
listed here; never the hub's settings or secrets. What it may use of the machine stands in `limits.py` and
`processes.py`, what it may see of it in `sandbox.py`.
Sources: DESIGN section 5; REQUIREMENTS V-C6, V-F10 to V-F13, VWR-23, X-16.
"""

from __future__ import annotations

import codecs
import json
import re
import shlex
import shutil
import signal
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from patchbay.activation import PAUSE, Call, Events, Handler, pauses
from patchbay.errors import ToolFailed
from patchbay.events import Event, Log, Text
from patchbay.outputs import events_of, may_become_media, media_type_of
from patchbay.processes.confinement.paths import AllowedPaths, existing
from patchbay.processes.confinement.threads import Confiner
from patchbay.processes.limits import Limits, bounded, tasks_of_user
from patchbay.processes.program import Channel, Command, run
from patchbay.processes.sandbox import walls
from patchbay.settings import environment, resolved

ONE_LINER = "@bash_command"
ALLOWED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
TAIL = 2000
"""Characters of stderr that a failure shows."""

LINE = 64 * 1024
"""Characters of stderr without a line break that are kept waiting for one."""

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")


def shell_handler(
    source: bytes,
    cid: str,
    name: str,
    variables: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 (it never changes)
    hidden: Sequence[Path] = (),
    protections: Sequence[str] = (),
    kept: Sequence[Path] = (),
) -> Handler:
    """What runs a shell definition. `cid` is not needed: nothing of a definition is kept between calls.

    A child sees `variables` (with their references, `settings.resolved`) beside those of ALLOWED, and nothing of the
    folders `hidden`, by `protections` (`confinement/`) or the sandbox. It changes nothing of those `kept`.
    """
    before = tasks_of_user()
    places = AllowedPaths(hidden=tuple(hidden), writes=existing(limits.writes), kept=tuple(kept))
    room = _Room(places, () if limits.sandbox else protections)
    first = source.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    one_liner = first.partition(" ")[0] == ONE_LINER

    def handle(call: Call) -> Events:
        arguments = arguments_of(call, one_liner)
        stdin = _input(call.arguments)
        with TemporaryDirectory(dir=room.folder(), prefix="call-", ignore_cleanup_errors=True) as folder:
            start = _program(first, name) if one_liner else _script(source, name, Path(folder))
            home = Path(folder) / "work"
            home.mkdir()
            seen = environment(ALLOWED) | {"TMPDIR": str(home)} | resolved(variables or {}, name)
            around = bounded(limits, call.left(), before)
            if limits.sandbox:
                around += walls(hidden, Path(folder))
            yield from _events(Command([*start, *arguments], seen, home, stdin, around, room.confine()), name, call)

    return handle


class _Room:
    """The folder of one definition, in which each call has one of its own, and what confines its commands."""

    def __init__(self, places: AllowedPaths, protections: Sequence[str]) -> None:
        self._places = places
        self._protections = protections
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._confiner: Confiner | None = None

    def folder(self) -> Path:
        """The folder, which goes with this definition."""
        with self._lock:
            if self._folder is None or not self._folder.is_dir():
                self._folder = Path(mkdtemp(prefix="tool-")).resolve()
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
                self._confiner = Confiner(replace(self._places, own=(self._folder,)), self._protections)
            return self._folder

    def confine(self) -> Confiner | None:
        """What confines the thread that begins a command."""
        return self._confiner if self._protections else None


def _program(line: str, name: str) -> list[str]:
    """The program of a one-liner, with the arguments that the definition itself gives it."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as problem:
        raise ToolFailed(f"{name}: the line {line!r} cannot be read: {str(problem).lower()}") from problem
    if not words:
        raise ToolFailed(f"{name}: the line {ONE_LINER} has to name a program, such as {ONE_LINER} date")
    return words


def _script(source: bytes, name: str, folder: Path) -> list[str]:
    """The interpreter and the script's file, as the kernel would put them together."""
    file = folder / name
    file.write_bytes(source)
    first = source.split(b"\n", 1)[0]
    shebang = first[2:].decode("utf-8", "replace").split(None, 1) if first.startswith(b"#!") else []
    return [*(part.strip() for part in shebang or ["bash"]), str(file)]


def arguments_of(call: Call, one: bool) -> list[str]:
    """The argument vector behind the program or script; `one` hands `args` over whole. Raises ToolFailed."""
    argv = call.target.get("argv")
    if argv is not None:
        return filled(argv, call.arguments)
    given = {key: value for key, value in call.arguments.items() if key != "input" and value is not None}
    if not given:
        return []
    key, value = next(iter(given.items()))
    if "takes" in call.target and set(given) != {call.target["takes"]}:
        # What the tool's schema does not name was not checked by it either, so it never reaches the command.
        raise ToolFailed(f"expected {call.target['takes'] or 'no argument'}, got {', '.join(map(repr, given))}")
    if len(given) > 1:
        raise ToolFailed(
            f"expected 'args' and 'input', got {', '.join(map(repr, given))}; several need argv in the config"
        )
    if not isinstance(value, str):
        raise ToolFailed(f"argument {key!r}: expected a string, got {_text(value)[:80]}")
    if key not in ("args", "command_args"):
        return [value]
    if one:
        return [] if value in ("", "_") else [value]
    try:
        return shlex.split(value)
    except ValueError as problem:
        raise ToolFailed(f"argument {key!r}: {str(problem).lower()}; quotes have to come in pairs") from problem


def filled(argv: Sequence[str], arguments: Mapping[str, Any]) -> list[str]:
    """An argv of the configuration with its placeholders filled in."""
    found: list[str] = []
    for element in argv:
        names = [name for name in PLACEHOLDER.findall(element) if name]
        if any(arguments.get(name) is None for name in names):
            continue
        whole = PLACEHOLDER.fullmatch(element)
        if whole is not None and whole[1] and isinstance(arguments[whole[1]], list):
            found += [_text(item) for item in arguments[whole[1]]]
        else:
            found.append(PLACEHOLDER.sub(lambda hit: _text(arguments[hit[1]]) if hit[1] else hit[0][0], element))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _input(arguments: Mapping[str, Any]) -> bytes | None:
    given = arguments.get("input")
    if given is None:
        return None
    if not isinstance(given, str):
        raise ToolFailed(f"argument 'input': expected a string, got {_text(given)[:80]}")
    return given.encode("utf-8", "replace")


class _Told:
    """What a child says, as events: stdout as text (as one content when it begins as no text), stderr as log lines."""

    def __init__(self) -> None:
        self._out = codecs.getincrementaldecoder("utf-8")("replace")
        self._err = codecs.getincrementaldecoder("utf-8")("replace")
        self._head: bytes | None = b""
        self._binary: bytearray | None = None
        self._line = ""
        self.tail = ""

    def take(self, channel: Channel, data: bytes) -> list[Event]:
        """The events of one more piece; none while a line of stderr, a character or a binary output is not complete."""
        return self._stderr(data) if channel == "stderr" else self._stdout(data)

    def rest(self) -> list[Event]:
        """The events of what was not complete when the child ended."""
        text = self._out.decode(self._head or b"", True)
        events: list[Event] = [Log("warning", self._line, "stderr")] if self._line else []
        if self._binary is not None:
            return [*events, *events_of(bytes(self._binary))]
        return [*events, Text(text)] if text else events

    def _stdout(self, data: bytes) -> list[Event]:
        if self._head is not None:
            data = self._head + data
            self._binary = bytearray() if b"\0" in data or media_type_of(data) else None
            if self._binary is None and may_become_media(data):
                self._head = data
                return []
            self._head = None
        if self._binary is not None:
            self._binary += data
            return []
        text = self._out.decode(data)
        return [Text(text)] if text else []

    def _stderr(self, data: bytes) -> list[Event]:
        text = self._err.decode(data)
        self.tail = (self.tail + text)[-TAIL:]
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > LINE:
            lines, self._line = [*lines, self._line], ""
        return [Log("warning", line, "stderr") for line in lines]


def _events(command: Command, name: str, call: Call) -> Events:
    """Run a command to its end. Raises ToolFailed when it cannot be started, says too much, or ends badly."""
    told = _Told()
    silence = pauses(call)
    due = time.monotonic() + next(silence)
    with closing(run(command)) as pieces:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                code: int = end.value
                break
            events = told.take(*piece) if piece is not None else []
            if not events and (call.cancelled or time.monotonic() >= due):
                events = [PAUSE]
            if events:
                yield from events
                due = time.monotonic() + next(silence)
    yield from told.rest()
    if code != 0:
        raise ToolFailed(_failure(name, code, told.tail.strip()), {"exitCode": code})


def _failure(name: str, code: int, tail: str) -> str:
    how = f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"
    return f"{name} {how}: {tail}" if tail else f"{name} {how}"
