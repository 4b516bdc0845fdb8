"""Shell definitions as tools. Arguments become whole elements of an argument vector, never a shell string.

Two forms of definition:

    @bash_command jq -r      one program; `args` becomes its one last argument (`_`: omitted)
    anything else            a script, run by its shebang's interpreter or by bash, with `args` as $1 ... $9

A static tool may say `"argv": ["--max={n}", "{file}"]`: each placeholder is replaced by the argument of that name, an
element without its argument is omitted, a list in an element of its own becomes several elements, and `{{` is a brace.
A tool with a single property of another name uses it as `args`. A property with `"format": "cid"` is a content: its
placeholder is replaced by the path of a file that has it, and `input` by its bytes. A value may begin with `-`; a
definition that must prevent this puts `--` before it. `input` is stdin. A child sees its arguments, stdin, an empty
folder of its own and the few variables listed here; never the hub's settings or secrets. `processes/limits.py` bounds
it, `program.py` ends it, `sandbox.py` and `confinement/` restrict its view.
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
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from patchbay.activation import PAUSE, Call, Events, Handler, pauses
from patchbay.config import FindVariables, resolved
from patchbay.errors import ServerFailed, ToolFailed
from patchbay.events import Event, Log, Text
from patchbay.outputs.conversion import events_of, may_become_media, media_type_of
from patchbay.processes.confinement.denials import Rules
from patchbay.processes.confinement.paths import AllowedPaths, existing_folders
from patchbay.processes.confinement.protections import LANDLOCK
from patchbay.processes.confinement.threads import Confiner
from patchbay.processes.limits import Limits, limit_command
from patchbay.processes.program import Channel, Command, run
from patchbay.processes.sandbox import sandbox_command
from patchbay.settings import environment

ONE_LINER = "@bash_command"
ALLOWED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
MAX_TAIL_CHARACTERS = 2000
"""Maximum characters of stderr in the message of a failure."""

MAX_LINE_CHARACTERS = 64 * 1024
"""Maximum characters of an incomplete line of stderr."""

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")


def shell_handler(
    source: bytes,
    name: str,
    variables: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 (it never changes)
    hidden: Sequence[Path] = (),
    protections: Sequence[str] = (),
    kept: Sequence[Path] = (),
    find_variables: FindVariables | None = None,
) -> Handler:
    """Return the handler of a shell definition.

    A child sees `variables` (with resolved references, `config.resolved`, to what `find_variables` returns) and those
    of ALLOWED. `protections`
    (`confinement/`) or the sandbox hide the folders `hidden` from it and make the folders `kept` read-only.
    """
    places = AllowedPaths(hidden=tuple(hidden), writes=existing_folders(limits.writes), kept=tuple(kept))
    workspace = _Workspace(places, () if limits.sandbox else protections)
    is_restricted = limits.sandbox or LANDLOCK in protections
    rules = Rules(name, places, limits.sandbox) if is_restricted else None
    first = source.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    one_liner = first.partition(" ")[0] == ONE_LINER

    def handle(call: Call) -> Events:
        with TemporaryDirectory(dir=workspace.folder(), prefix="call-", ignore_cleanup_errors=True) as folder:
            stdin, given = _write_contents(call, Path(folder))
            arguments = arguments_of(given, one_liner)
            stdin = _encode_input(given.arguments) if stdin is None else stdin
            start = _program(first, name) if one_liner else _script(source, name, Path(folder))
            home = Path(folder) / "work"
            home.mkdir()
            own = resolved(variables, name, find_variables and find_variables(name)) if variables else {}
            variables_of_call = environment(ALLOWED) | {"TMPDIR": str(home)} | own
            around = limit_command(limits, call.left())
            if limits.sandbox:
                around += sandbox_command(hidden, Path(folder))
            yield from _events(
                Command([*start, *arguments], variables_of_call, home, stdin, around, workspace.confine()),
                name,
                call,
                rules,
            )

    return handle


def _write_contents(call: Call, folder: Path) -> tuple[bytes | None, Call]:
    """Write the contents among the arguments of a call to files in its folder.

    Return the bytes for standard input, None without any, and the call with the paths of the files as arguments.
    Raises ToolFailed for a content that is not in base64 where its schema says so.
    """
    places: Mapping[str, bool] = call.target.get("contents", {})
    contents = {name: _bytes_of(name, call.arguments[name], places[name]) for name in places if name in call.arguments}
    if not contents:
        return None, call
    arguments = {name: value for name, value in call.arguments.items() if name not in contents}
    stdin = contents.pop("input", None)
    for number, (name, data) in enumerate(contents.items()):
        path = folder / f"content+{number}"  # no server has such a name, so that its script is another file
        path.write_bytes(data)
        arguments[name] = str(path)
    return stdin, replace(call, arguments=arguments)


def _bytes_of(name: str, value: Any, is_base64: bool) -> bytes:
    if not isinstance(value, str):
        raise ToolFailed(f"argument {name!r}: expected a string, got {_text(value)[:80]}")
    try:
        return b64decode(value, validate=True) if is_base64 else value.encode("utf-8", "replace")
    except ValueError as problem:
        raise ToolFailed(f"argument {name!r}: expected base64, or a cid:// link ({problem})") from problem


class _Workspace:
    """The folder of one definition, in which each call has its own folder, and the confinement of its commands."""

    def __init__(self, places: AllowedPaths, protections: Sequence[str]) -> None:
        self._places = places
        self._protections = protections
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._confiner: Confiner | None = None

    def folder(self) -> Path:
        """Return the folder, which is deleted with this definition."""
        with self._lock:
            if self._folder is None or not self._folder.is_dir():
                self._folder = Path(mkdtemp(prefix="tool-")).resolve()
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
                self._confiner = Confiner(replace(self._places, own=(self._folder,)), self._protections)
            return self._folder

    def confine(self) -> Confiner | None:
        """Return the function that confines the thread that starts a command."""
        return self._confiner if self._protections else None


def _program(line: str, name: str) -> list[str]:
    """Return the program of a one-line definition, with the arguments in the definition itself."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as problem:
        raise ServerFailed(f"{name}: the line {line!r} cannot be read: {str(problem).lower()}") from problem
    if not words:
        raise ServerFailed(f"{name}: the line {ONE_LINER} must name a program, such as {ONE_LINER} date")
    return words


def _script(source: bytes, name: str, folder: Path) -> list[str]:
    """Return the interpreter and the script's file, combined like the kernel does."""
    file = folder / name
    file.write_bytes(source)
    first = source.split(b"\n", 1)[0]
    shebang = first[2:].decode("utf-8", "replace").split(None, 1) if first.startswith(b"#!") else []
    return [*(part.strip() for part in shebang or ["bash"]), str(file)]


def arguments_of(call: Call, one: bool) -> list[str]:
    """Return the arguments of the program or script; `one` passes `args` as one argument. Raises ToolFailed."""
    argv = call.target.get("argv")
    if argv is not None:
        return fill_argv(argv, call.arguments)
    given = {key: value for key, value in call.arguments.items() if key != "input" and value is not None}
    if not given:
        return []
    key, value = next(iter(given.items()))
    if "takes" in call.target and set(given) != {call.target["takes"]}:
        # The schema check ignores arguments that the schema does not name, so they never reach the command.
        raise ToolFailed(f"expected {call.target['takes'] or 'no argument'}, got {', '.join(map(repr, given))}")
    if len(given) > 1:
        raise ToolFailed(f"expected 'args' and 'input', got {', '.join(map(repr, given))}; several arguments need argv")
    if not isinstance(value, str):
        raise ToolFailed(f"argument {key!r}: expected a string, got {_text(value)[:80]}")
    if key not in ("args", "command_args"):
        return [value]
    if one:
        return [] if value in ("", "_") else [value]
    try:
        return shlex.split(value)
    except ValueError as problem:
        raise ToolFailed(f"argument {key!r}: {str(problem).lower()}; each quote must be closed") from problem


def fill_argv(argv: Sequence[str], arguments: Mapping[str, Any]) -> list[str]:
    """Return an argv of the configuration with its placeholders replaced."""
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


def _encode_input(arguments: Mapping[str, Any]) -> bytes | None:
    given = arguments.get("input")
    if given is None:
        return None
    if not isinstance(given, str):
        raise ToolFailed(f"argument 'input': expected a string, got {_text(given)[:80]}")
    return given.encode("utf-8", "replace")


class _OutputEvents:
    """The output of a child as events: stdout as text, or as one content when it is binary; stderr as log lines."""

    def __init__(self) -> None:
        self._out = codecs.getincrementaldecoder("utf-8")("replace")
        self._err = codecs.getincrementaldecoder("utf-8")("replace")
        self._head: bytes | None = b""
        self._binary: bytearray | None = None
        self._line = ""
        self.tail = ""

    def feed(self, channel: Channel, data: bytes) -> list[Event]:
        """Return the events of one more piece; an empty list while a line, a character or a binary output is
        incomplete.
        """
        return self._stderr(data) if channel == "stderr" else self._stdout(data)

    def rest(self) -> list[Event]:
        """Return the events of the incomplete output when the child ends."""
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
        self.tail = (self.tail + text)[-MAX_TAIL_CHARACTERS:]
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_LINE_CHARACTERS:
            lines, self._line = [*lines, self._line], ""
        return [Log("warning", line, "stderr") for line in lines]


def _events(command: Command, name: str, call: Call, rules: Rules | None) -> Events:
    """Run a command to its end; `rules` explain what the command was refused.

    Raises ToolFailed when it cannot be started, writes too much, or fails.
    """
    output = _OutputEvents()
    silence = pauses(call)
    due = time.monotonic() + next(silence)
    with closing(run(command)) as pieces:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                code: int = end.value
                break
            events = output.feed(*piece) if piece is not None else []
            if not events and (call.cancelled or time.monotonic() >= due):
                events = [PAUSE]
            if events:
                yield from events
                due = time.monotonic() + next(silence)
    yield from output.rest()
    if code != 0:
        hint = rules.explain_output(output.tail) if rules is not None else ""
        said = output.tail.strip()
        hidden = _failure("it", code, said)
        raise ServerFailed(_failure(name, code, f"{said} {hint}".strip()), {"exitCode": code}, hidden)


def _failure(name: str, code: int, tail: str) -> str:
    how = f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"
    return f"{name} {how}: {tail}" if tail else f"{name} {how}"
