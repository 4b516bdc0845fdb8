"""Finds the background process of a connection, or starts it.

One command at a time starts the process of an identity: a lock beside the socket makes the others wait for it. The plan
goes over standard input, because it has the environment.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.addresses.targets import Era, Stdio
from patchbay.client.connection.programs.environment import INHERITED_VARIABLES
from patchbay.client.connection.requests import Asker
from patchbay.client.kept.confinement_fields import encode_confinement
from patchbay.client.kept.connection import KeptConnection
from patchbay.client.kept.messages import decode_failure
from patchbay.client.kept.places import ENDING, NotKept, open_folder, socket_of
from patchbay.processes.confinement.programs import ProgramConfinement

IDLE_SECONDS = 600.0
"""Seconds without a request after which a background process ends."""

COMMAND = (sys.executable, "-P", "-m", "patchbay.client.kept.background")

PACKAGES = str(Path(__file__).resolve().parents[3])
"""The folder that has this package, so that the background process runs the same version."""

Json = dict[str, Any]


def open_kept(
    target: Stdio,
    *,
    era: Era,
    name: str,
    version: str,
    start_timeout: float,
    timeout: float,
    ask: Asker | None,
    questions: Collection[str],
    environ: Mapping[str, str],
    log_level: str | None,
    idle_seconds: float = IDLE_SECONDS,
    confinement: ProgramConfinement | None = None,
) -> KeptConnection:
    """Return the kept connection to a program; start its background process if that does not run.

    The options are those of `Connection.open`. Raises NotKept when no background process can be used, and what
    `Connection.open` raises when the program cannot be started.
    """
    inherited = {key: value for key, value in environ.items() if INHERITED_VARIABLES.fullmatch(key)}
    confined, folder = encode_confinement(confinement), str(Path(target.cwd or ".").absolute())
    target = target if confined is not None and target.cwd is None else replace(target, cwd=folder)
    options = {"era": era, "name": name, "version": version, "log_level": log_level}
    asked = sorted(questions)
    program: Json = {
        "command": target.command, "args": list(target.args), "env": dict(target.env), "cwd": target.cwd
    }  # fmt: skip
    identity = {"target": program, "environ": inherited, "questions": asked, **options, "confinement": confined}
    place = socket_of(open_folder(environ), {**identity, "folder": folder})
    found = _connect(place, timeout, ask)
    if found is not None:
        return found
    plan = {
        "target": program, "environ": inherited, "questions": asked, "place": str(place), "idle": idle_seconds,
        "options": {**options, "start_timeout": start_timeout, "timeout": timeout}, "confinement": confined,
    }  # fmt: skip
    with _lock(place):
        found = _connect(place, timeout, ask)
        if found is None:
            _start(plan, environ)
            found = _connect(place, timeout, ask)
    if found is None:
        raise NotKept("the background process ended at once")
    return found


def list_places(environ: Mapping[str, str]) -> list[Path]:
    """Return the sockets of this user's background processes. Raises NotKept."""
    return sorted(open_folder(environ).glob(f"*{ENDING}"))


def _connect(place: Path, timeout: float, ask: Asker | None) -> KeptConnection | None:
    try:
        return KeptConnection(place, timeout, ask)
    except OSError:
        return None


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Let one command at a time start a process."""
    try:
        descriptor = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise NotKept(f"{place.with_suffix('.lock')} cannot be made ({problem.strerror})") from problem
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _start(plan: Json, environ: Mapping[str, str]) -> None:
    """Start a background process and wait for its report. Raises NotKept, and the failure that it reports."""
    try:
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, (PACKAGES, environ.get("PYTHONPATH"))))},
            start_new_session=True,
        )
    except OSError as problem:
        raise NotKept(f"the background process cannot be started ({problem.strerror})") from problem
    with process:
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError), process.stdin as given:
            given.write(orjson.dumps(plan))
        line = process.stdout.readline()
    if not line:
        raise NotKept(f"the background process ended with exit code {process.returncode} before it was ready")
    report = orjson.loads(line)
    if "failure" in report:
        raise decode_failure(report["failure"])
