"""Make one environment with uv: resolve, lock, install, and move it into place as a whole.

    <folder>/<cid>/            the environment: `bin`, `lib`, and `environment.json`, which says what is in it
    <folder>/<cid>.lock.txt    exact versions with hashes; an environment that is made again gets the same ones
    <folder>/<cid>.failed      why the last attempt failed
    <folder>/<cid>.making      locked while a process of the hub, or uv, works on the environment
    <folder>/cache/            the cache of uv

uv works in a temporary folder, which gets its final name when it is complete. A hub that is killed leaves the temporary
folder, and the next attempt removes it. uv installs wheels only, unless the hub permits sources: the build of a source
runs code of the package. uv runs confined (`confinement.py`), and so does what it builds. The Python of an environment
runs files of its packages when it starts (`sitecustomize.py`, `.pth`), so nothing starts it after the installation
except a confined worker.

Source: https://docs.astral.sh/uv/reference/cli/.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from uv import find_uv_bin

from patchbay.environments.confinement import UvConfinement, confine_uv, has_credentials
from patchbay.environments.requirements import Requirements
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.processes.confined_command import confined_command
from patchbay.processes.confinement.programs import ConfinementMissing, ProgramPlaces
from patchbay.processes.program import Command, run

MAX_SECONDS = 900.0
"""Maximum seconds for one environment."""

MAX_ENVIRONMENT_BYTES = 8 * 1024 * 1024 * 1024
"""Maximum bytes of one environment."""

MAX_UV_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_REASON_CHARACTERS = 700

SIZE_CHECK_SECONDS = 2.0
"""Seconds between two checks of the size while uv works."""

MANIFEST, LOCK = "environment.json", "lock.txt"

_FINDING = threading.Lock()

PASSED_VARIABLES = re.compile(
    r"(UV_|SSL_CERT_)[A-Z0-9_]+|(?i:(https?|all|no)_proxy)|PATH|HOME|USER|LANG|LC_ALL|TMPDIR|NETRC|XDG_CONFIG_HOME"
)
"""The variables of the hub that uv gets: its own settings (indexes, credentials), proxies, certificates."""

PIP_VARIABLES = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""Settings of pip that uv reads under another name."""

WORKER_PACKAGES = ("annotated-types", "orjson", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection")
"""Packages that every worker process has loaded from the hub; an environment gets the same versions."""


class InstallationFailed(PatchbayError):
    """An environment cannot be made; the message says why, and the next step."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is in an environment: exact versions, bytes, and the folder of its packages, relative to it."""

    packages: tuple[str, ...]
    python: str
    locked: tuple[str, ...]
    bytes: int
    seconds: float
    site: str


def read_installed(folder: Path) -> Installed | None:
    """Return what is in an environment; None when it is not there, or its Python has been removed."""
    try:
        fields: dict[str, Any] = orjson.loads((folder / MANIFEST).read_bytes())
        found = Installed(**fields | {name: tuple(fields[name]) for name in ("packages", "locked")})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if (folder / "bin" / "python").exists() and (folder / found.site).is_dir() else None


class Installation:
    """Makes the environment of one set of requirements below `folder`.

    `environ` are the hub's variables; `sources` permits packages without a wheel. `report` gets each step as words.
    `held` is the descriptor of the lock: uv inherits it, so that the lock holds until uv has ended, too. `places` are
    those of the hub, from which uv and what it builds are kept away.
    """

    def __init__(
        self,
        folder: Path,
        needs: Requirements,
        environ: Mapping[str, str],
        sources: bool,
        report: Callable[[str], None],
        held: int,
        places: ProgramPlaces,
    ) -> None:
        self._folder = folder
        self._needs = needs
        self._environ = uv_environment(environ)
        self._places = places
        self._sources = sources
        self._report = report
        self._held = held
        self._until = time.monotonic() + MAX_SECONDS
        self._lock = folder / f"{needs.key}.lock.txt"
        self._is_stopped = False

    def stop(self) -> None:
        """Stop uv; `make` raises InstallationFailed soon."""
        self._is_stopped = True

    def make(self) -> Installed:
        """Make the environment; replaces one that is there. Raises InstallationFailed."""
        begun = time.monotonic()
        self._remove_leftovers()
        try:
            (self._folder / "cache").mkdir(mode=0o700, exist_ok=True)
            if not self._sources:
                return self._make_in_new_folder(begun, False)
            if has_credentials(self._environ):
                # What builds packages gets no credentials, so packages of a private index have to be wheels.
                with suppress(InstallationFailed):
                    return self._make_in_new_folder(begun, False)
            return self._make_in_new_folder(begun, True)
        except ConfinementMissing as problem:
            raise InstallationFailed(f"the installation cannot be confined: {problem}") from problem
        except OSError as problem:
            raise InstallationFailed(f"the environment cannot be written: {problem.strerror}") from problem

    def _make_in_new_folder(self, begun: float, builds: bool) -> Installed:
        """Make the environment in a new folder; with `builds`, packages may run code there."""
        work = Path(tempfile.mkdtemp(prefix=f"{self._needs.key}.new-", dir=self._folder))
        try:
            cache = self._folder / "cache"
            return self._make_in(confine_uv(self._places, self._environ, work, cache, builds), work, begun)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _make_in(self, uv: UvConfinement, work: Path, begun: float) -> Installed:
        made = work / "environment"
        self._make_empty(uv, work, made)
        was_locked = self._lock.exists()
        if was_locked:
            (work / LOCK).write_bytes(self._lock.read_bytes())
        else:
            self._resolve(uv, work, _python_of(made))
        try:
            self._install(uv, work, made)
        except InstallationFailed as problem:
            hint = f"; or delete {self._lock} to find other versions" if was_locked else ""
            raise InstallationFailed(problem.message + hint) from problem
        if made.is_symlink():
            raise InstallationFailed("a package has replaced the environment by a link")
        site = next(made.glob("lib/python*/site-packages"))
        self._compile(uv, work, site)
        size = disk_bytes(made)
        locked = tuple(locked_versions(self._lock.read_text()))
        seconds = round(time.monotonic() - begun, 3)
        found = Installed(self._needs.packages, self._needs.python, locked, size, seconds, str(site.relative_to(made)))
        (made / MANIFEST).unlink(missing_ok=True)  # a package may have left a link there
        with (made / MANIFEST).open("xb") as manifest:
            manifest.write(orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2))
        final = self._folder / self._needs.key
        shutil.rmtree(final, ignore_errors=True)
        made.rename(final)
        return found

    def _resolve(self, uv: UvConfinement, work: Path, python: tuple[str, ...]) -> None:
        """Write the lock: exact versions with hashes."""
        self._report(f"finding versions of {self._needs.names}")
        wanted, bounds, lock = work / "requirements.in", work / "constraints.txt", work / LOCK
        wanted.write_text("\n".join(self._needs.packages) + "\n")
        bounds.write_text("".join(f"{line}\n" for line in worker_constraints()))
        options = ("--generate-hashes", "--no-header", "--no-annotate", "--constraints", str(bounds), *_builds(uv))
        self._uv(uv, work, "pip", "compile", "--quiet", *python, *options, "--output-file", str(lock), str(wanted))
        self._lock.write_bytes(_read_plain(lock))

    def _install(self, uv: UvConfinement, work: Path, made: Path) -> None:
        """Install exactly what is locked: from the cache if everything is there, else from the index."""
        self._report(f"installing {self._needs.names}")
        options = ("--no-deps", "--no-compile-bytecode", *_builds(uv), "--requirement", str(work / LOCK))
        install = ("pip", "install", "--quiet", *_python_of(made), *options)
        try:
            self._uv(uv, work, *install, "--offline")
        except InstallationFailed:
            if self._is_stopped:
                raise
            # uv asks the Python of the environment, which would run code of the packages that are installed already.
            shutil.rmtree(made)
            self._make_empty(uv, work, made)
            self._uv(uv, work, *install)

    def _make_empty(self, uv: UvConfinement, work: Path, made: Path) -> None:
        """Make the environment without packages."""
        self._uv(uv, work, "venv", "--relocatable", "--no-project", "--python", sys.executable, str(made))

    def _compile(self, uv: UvConfinement, work: Path, site: Path) -> None:
        """Compile the packages. This reads them and runs no code of them, as the Python of the environment would.

        A package may have files that are not code of this Python, so a failure changes nothing.
        """
        self._run(uv, work, [sys.executable, "-I", "-S", "-m", "compileall", "-q", "-q", "-j", "0", str(site)])

    def _uv(self, uv: UvConfinement, work: Path, *words: str) -> None:
        """Run uv. Raises InstallationFailed with its reason."""
        code, output = self._run(
            uv, work, [_find_uv(), *words, "--no-progress", "--color", "never", "--no-python-downloads"]
        )
        if code != 0:
            raise InstallationFailed(explain_failure(output.decode("utf-8", "replace"), self._needs))

    def _run(self, uv: UvConfinement, work: Path, argv: list[str]) -> tuple[int, bytes]:
        """Run a program; return its exit code and the end of its output. Raises InstallationFailed."""
        tail: deque[bytes] = deque(maxlen=200)
        checked = time.monotonic()
        start = confined_command(uv.confinement, argv, {}, uv.environment, work, (self._held,))
        try:
            with start as command, closing(run(command, MAX_UV_OUTPUT_BYTES)) as pieces:
                while True:
                    try:
                        piece = next(pieces)
                    except StopIteration as ended:
                        code = ended.value
                        break
                    if piece is not None:
                        tail.append(piece[1])
                    now = time.monotonic()
                    if self._is_stopped:
                        raise InstallationFailed("the hub is ending")
                    if now > self._until:
                        raise InstallationFailed(f"it took longer than {MAX_SECONDS:.0f} seconds")
                    if now > checked + SIZE_CHECK_SECONDS:
                        checked = now
                        check_size(work)
        except ToolFailed as problem:
            raise InstallationFailed(f"{Path(argv[0]).name} cannot run: {problem.message}") from problem
        check_size(work)
        return code, b"".join(tail)

    def _remove_leftovers(self) -> None:
        """Remove what a hub that was killed left of this environment. The caller holds its lock."""
        for left in self._folder.glob(f"{self._needs.key}.new-*"):
            shutil.rmtree(left, ignore_errors=True)


def _find_uv() -> str:
    """Return the path of uv."""
    # Before Python 3.12, `sysconfig` shows a second thread its values while the first one still reads them.
    with _FINDING:
        return find_uv_bin()


def _read_plain(file: Path) -> bytes:
    """Return the bytes of a file in a folder that packages may have changed. Raises OSError for a link."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
        return opened.read()


def _builds(uv: UvConfinement) -> tuple[str, ...]:
    """Return the options of uv that say whether it may build packages."""
    return () if uv.builds else ("--only-binary", ":all:")


def _python_of(made: Path) -> tuple[str, str]:
    """Return the option of uv that names the Python of an environment."""
    return "--python", str(made / "bin" / "python")


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of uv: those of the hub that concern it."""
    found = {name: value for name, value in environ.items() if PASSED_VARIABLES.fullmatch(name)}
    for pip, name in PIP_VARIABLES.items():
        if environ.get(pip):
            found.setdefault(name, environ[pip])
    if "UV_INDEX_URL" in found:  # the older name of the default index
        found.setdefault("UV_DEFAULT_INDEX", found.pop("UV_INDEX_URL"))
    return found | {"UV_NO_PROJECT": "1"}


def worker_constraints() -> Iterator[str]:
    """Yield the versions of the packages that a worker has loaded before it uses an environment."""
    for name in WORKER_PACKAGES:
        try:
            yield f"{name}=={version(name)}"
        except PackageNotFoundError:
            continue


def locked_versions(lock: str) -> Iterator[str]:
    """Yield each package of a lock with its exact version or address."""
    for line in lock.splitlines():
        if line and not line.startswith((" ", "#", "-")):
            yield line.removesuffix("\\").partition(" ;")[0].strip()


def clean_cache(folder: Path) -> None:
    """Remove what the cache of uv can download again. `folder` is that of the environments, which stay whole."""
    cache = folder / "cache"
    if cache.is_dir():
        words = (_find_uv(), "cache", "prune", "--ci", "--quiet", "--cache-dir", str(cache))
        deque(run(Command(words, {}, folder)), maxlen=0)


def check_size(folder: Path) -> None:
    """Raise InstallationFailed when a folder has more than MAX_ENVIRONMENT_BYTES."""
    if disk_bytes(folder) > MAX_ENVIRONMENT_BYTES:
        raise InstallationFailed(f"the packages take more than {MAX_ENVIRONMENT_BYTES // 1024**3} GiB")


def disk_bytes(folder: Path) -> int:
    """Return the bytes of a folder on the disk; a file with several names in it counts once."""
    found: dict[tuple[int, int], int] = {}
    for place, _, files in os.walk(folder):
        for file in files:
            try:
                state = os.lstat(Path(place, file))
            except OSError:
                continue
            found[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(found.values())


REASONS = (
    (r"not found in the package registry|was not found in", "check the names and versions in the requirements"),
    (
        r"no usable wheels|no wheels|building from source is disabled|only-binary|no matching (Python|platform)",
        "choose a version that has a wheel for this machine and Python, or start the hub with --packages any, which"
        " permits builds",
    ),
    (r"[Uu]nsatisfiable|No solution found", "change the versions in the requirements so that they fit together"),
    (
        r"Failed to fetch|error sending request|[Cc]onnect|dns|[Nn]etwork|timed out",
        "check the network and the address of the package index (UV_DEFAULT_INDEX)",
    ),
    (r"No space left|os error 28", "free some space on the disk of the data folder"),
)
"""Words in the output of uv, and the next step for each."""


def explain_failure(output: str, needs: Requirements) -> str:
    """Return the reason of a failure in the words of uv, without its line graphics, and the next step."""
    lines = (re.sub(r"^[\s×╰─▶├│·]+", "", line).strip() for line in output.splitlines())
    words = " ".join(line for line in lines if line and not line.startswith("warning:")).replace(" cause: ", ": ")
    reason = words.removeprefix("error: ")[:MAX_REASON_CHARACTERS] or "uv gave no reason"
    step = next((step for pattern, step in REASONS if re.search(pattern, output)), "check the requirements")
    return f"{reason.rstrip('.')}. Next step: {step}"
