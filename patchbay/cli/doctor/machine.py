"""Checks of the machine: Python, SQLite, the disk, the clock, proxies, and what separates tools from the hub."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

from patchbay.assets import PACKAGE
from patchbay.cli.doctor.verdicts import CheckResult, ok, problem, warning
from patchbay.cli.terminal.messages import quote_word
from patchbay.embeddings.selection import INSTALL, WHEEL, missing_libraries, wheel_files
from patchbay.embeddings.selection import OFF as WITHOUT_MODEL
from patchbay.processes import sandbox
from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.programs import OFF, describe_missing_protections
from patchbay.serving.next_step import DISTRIBUTION
from patchbay.settings import Settings, names_proxy
from patchbay.stores.reserve import FEW_DISK_BYTES, RESERVE_BYTES
from patchbay.stores.reserve import FILE as RESERVE_FILE
from patchbay.stores.sqlite.database import describe_library

OLDEST_PYTHON = (3, 11)
MIN_DISK_BYTES = 20 * 1024 * 1024
"""Free bytes below which the hub soon cannot store anything."""

MAX_CLOCK_SECONDS = 300.0
"""Seconds that a file may lie in the future of the clock: a token of another machine is refused from there on."""

LOCAL_NAMES = ("127.0.0.1", "localhost")


def check_machine(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield the verdicts about this machine; `environ` is the environment of the command."""
    yield check_python(sys.version_info[:2], platform.python_version())
    yield check_package(packages_distributions().get("patchbay", ()))
    yield check_sqlite(*describe_library())
    folder = next(path for path in (settings.data, *settings.data.parents) if path.exists())
    yield check_meaning(settings.embeddings, missing_libraries(), wheel_files() is not None)
    yield check_disk(folder, shutil.disk_usage(folder).free, (settings.data / RESERVE_FILE).exists())
    yield check_clock(time.time(), _newest_file(settings.data))
    yield check_proxies(environ)
    yield check_confinement(settings, landlock.version())
    yield check_programs(settings, landlock.version())
    yield check_sandbox()


def check_python(version: tuple[int, ...], text: str) -> CheckResult:
    """Check the version of Python."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if version < OLDEST_PYTHON:
        return problem(
            "Python",
            f"this is {text}; the hub needs {oldest} or newer",
            f"uvx --python {oldest} --from {DISTRIBUTION} patchbay",
        )
    return ok("Python", text)


def check_package(distributions: Collection[str]) -> CheckResult:
    """Check which installed packages have the module `patchbay`: that of PyPI with this name is another project."""
    if "patchbay" in distributions:
        sentence = (
            f"a package `patchbay` is installed here; this program is `{DISTRIBUTION}`, and PyPI's is another one"
        )
        return warning("package", sentence, "pip uninstall patchbay")
    return ok("package", DISTRIBUTION)


def check_sqlite(version: str, defect: str | None) -> CheckResult:
    """Check the version of the SQLite library."""
    return warning("SQLite", defect, "pip install pysqlite3-binary") if defect else ok("SQLite", version)


def check_meaning(chosen: str, missing: Collection[str], has_default: bool) -> CheckResult:
    """Check which model search by meaning has: the setting `embeddings`, and the packages of the extra `semantic`."""
    if chosen == WITHOUT_MODEL:
        return ok("search", "by words; search by meaning is switched off (embeddings)")
    if missing or not (chosen or has_default):
        return ok("search", f"by words; to find what is said in other words too: {INSTALL}")
    return ok("search", f"by words and by meaning, with the model {chosen or WHEEL}")


def check_disk(folder: Path, free: int, can_collect: bool) -> CheckResult:
    """Check the free bytes of the disk of a folder; `can_collect` says whether `gc` has room to work on a full disk."""
    sentence = f"{free // 1024**2} MiB are free at {folder}"
    if free < RESERVE_BYTES and not can_collect:
        return problem("disk", f"{sentence}: delete or move large files of this disk", _show_largest(folder))
    if free < MIN_DISK_BYTES:
        return problem("disk", sentence, "patchbay gc --blob-hours 1")
    return warning("disk", sentence, "patchbay gc") if free < FEW_DISK_BYTES else ok("disk", sentence)


def _show_largest(folder: Path) -> str:
    """The command that shows the largest folders on the disk of a folder."""
    top = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_mount())
    return f"du -xh {quote_word(str(top))} | sort -h | tail -n 20"


def check_clock(now: float, newest: float) -> CheckResult:
    """Check the clock against the newest file of the hub (Unix times): files of the future mean a wrong clock."""
    if newest > now + MAX_CLOCK_SECONDS:
        behind = f"the clock is {round((newest - now) / 60)} minutes behind the newest file of the hub"
        return problem("clock", f"{behind}: tokens and links are refused", "sudo timedatectl set-ntp true")
    return ok("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)))


def _newest_file(data: Path) -> float:
    found = [Path(PACKAGE / "__init__.py").stat().st_mtime]
    if data.is_dir() and os.access(data, os.R_OK | os.X_OK):
        found += [entry.stat().st_mtime for entry in os.scandir(data) if entry.is_file(follow_symlinks=False)]
    return max(found)


def check_proxies(environ: Mapping[str, str]) -> CheckResult:
    """Check that requests to this machine do not go to a proxy."""
    values = {name.lower(): value for name, value in environ.items() if name.lower().endswith("_proxy") and value}
    if not names_proxy() or not (named := sorted(values.keys() - {"no_proxy"})):
        return ok("proxies", "no proxy is set")
    excepted = {part.strip() for part in values.get("no_proxy", "").split(",")}
    left = [name for name in LOCAL_NAMES if name not in excepted and "*" not in excepted]
    if left:
        sentence = f"{', '.join(named)} may send requests to this machine to a proxy: NO_PROXY lacks {', '.join(left)}"
        return warning("proxies", sentence, f"export NO_PROXY={','.join(sorted(excepted - {''} | set(LOCAL_NAMES)))}")
    return ok("proxies", f"{', '.join(named)} is set; this machine is excepted")


def check_confinement(settings: Settings, version: int) -> CheckResult:
    """Check Landlock (`version` is that of the kernel, 0 without it)."""
    if "landlock" not in settings.protections:
        return warning("Landlock", "the setting protections leaves it out", "patchbay serve without --protections")
    if version <= 0:
        sentence = "this system does not have it: a tool can read what you can read, except in a sandbox"
        return warning("Landlock", sentence, 'use Linux 5.13 or newer, or "sandbox": true in the configuration')
    return ok("Landlock", f"version {version}: tools read nothing of the hub's data")


def check_programs(settings: Settings, version: int) -> CheckResult:
    """Check the confinement of mounted programs (`version` is that of Landlock, 0 without it)."""
    missing = describe_missing_protections(settings.confine, settings.protections, version)
    if not missing:
        sentence = "they read no file of the hub and no private place of yours, and change only folders of their own"
        return ok("mounted programs", sentence)
    if settings.confine == OFF:
        return warning("mounted programs", missing, "patchbay serve without --confine and PATCHBAY_CONFINE")
    mend = "use Linux 6.12 or newer, and permit namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    return warning("mounted programs", missing, mend)


def check_sandbox() -> CheckResult:
    """Check bubblewrap, which servers with `"sandbox": true` need."""
    if sandbox.is_available():
        return ok("sandbox", f"{sandbox.PROGRAM} works")
    if shutil.which(sandbox.PROGRAM) is None:
        sentence = f'{sandbox.PROGRAM} is not installed: servers with "sandbox": true are not served'
        return warning("sandbox", sentence, "sudo apt install bubblewrap")
    sentence = f"{sandbox.PROGRAM} cannot make namespaces here: a container or the kernel forbids them"
    return warning("sandbox", sentence, "sudo sysctl kernel.unprivileged_userns_clone=1")
