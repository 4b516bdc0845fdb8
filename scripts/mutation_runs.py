"""Shows the power of the tests: puts known faults into copies of the checkout and runs the tests that must find them.

`scripts/mutations` starts it; the faults are in `mutations.toml`. Nothing in the checkout itself changes. Each copy has
an environment of its own, which takes the packages of the checkout's `.venv` and the code of the copy; so every program
that a test starts runs the code with the fault.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path("scripts/mutations.toml")

MAX_SECONDS = 120.0
"""Seconds that the tests of one mutation may take; a fault that makes them wait longer counts as found."""

MAX_UNCHANGED_SECONDS = 900.0
"""Seconds that all of these tests may take on the unchanged code."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_TESTS_FAILED, _INTERRUPTED = 1, 2
"""Exit codes of pytest: a test failed; the collection failed, because the code cannot be imported."""


class Unusable(Exception):
    """The mutations cannot run; the message says why."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: `old` in the file `path` becomes `new`; `tests` have to find it; `why` says what the fault does."""

    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str

    def line(self, root: Path) -> int:
        """Return the line of `old` in its file. Raises Unusable unless it occurs exactly once."""
        text = (root / self.path).read_text("utf-8")
        if text.count(self.old) != 1:
            raise Unusable(f"{self.path}: expected this text once, found it {text.count(self.old)} times: {self.old!r}")
        return text[: text.index(self.old) + len(self.old) - len(self.old.lstrip())].count("\n") + 1


@dataclass(frozen=True, slots=True)
class Finding:
    """What the tests said to one mutation: which test found it (empty: none did), and the seconds that it took."""

    mutation: Mutation
    found_by: str
    seconds: float


def load(root: Path) -> tuple[int, list[Mutation]]:
    """Return the recorded number of found mutations, and all mutations. Raises Unusable."""
    document = tomllib.loads((root / DATA).read_text("utf-8"))
    rows = [{**row, "tests": tuple(row["tests"])} for row in document["mutation"]]
    return int(document["found"]), [Mutation(**row) for row in rows]


class Copy:
    """A copy of a checkout with an environment of its own, in which one mutation at a time is tried."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
        )
        present = b"\0".join(
            name for name in listed.stdout.split(b"\0") if name and (root / os.fsdecode(name)).exists()
        )
        command = ["xargs", "-0", "cp", "-a", "--parents", "-t", str(folder)]
        subprocess.run(command, cwd=root, input=present, check=True)
        if (root / ".node").is_dir():
            (folder / ".node").symlink_to(root / ".node")
        self.python = _make_environment(folder)
        self._written = time.time() - 24 * 3600

    def try_out(self, mutation: Mutation) -> Finding:
        """Run the tests of a mutation with its fault. Raises Unusable when they cannot run."""
        path = self.folder / mutation.path
        text = path.read_text("utf-8")
        begun = time.monotonic()
        try:
            self._write(path, text.replace(mutation.old, mutation.new))
            code, output = self.run_tests(mutation.tests)
        finally:
            self._write(path, text)
        seconds = time.monotonic() - begun
        if code is None:
            return Finding(mutation, output, seconds)
        if code not in (0, _TESTS_FAILED, _INTERRUPTED):
            raise Unusable(f"{mutation.path}: pytest ended with {code}:\n{output[-2000:]}")
        named = _FAILED.search(output)
        return Finding(mutation, "" if code == 0 else named[1] if named else "a failure without a name", seconds)

    def run_tests(
        self, tests: Sequence[str], *options: str, max_seconds: float = MAX_SECONDS
    ) -> tuple[int | None, str]:
        """Run tests up to the first failure; return pytest's exit code (None: not in time) and what it printed."""
        child = subprocess.Popen(
            [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *options, *tests],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=max_seconds)
            return child.returncode, output.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return None, f"no end within {max_seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _write(self, path: Path, text: str) -> None:
        """Write a module with a time of its own: Python takes compiled code for current by whole seconds and size."""
        path.write_text(text, "utf-8")
        self._written += 2
        os.utime(path, (self._written, self._written))


def _make_environment(folder: Path) -> Path:
    """Make an environment with the packages of this one and the code in `folder`; return its Python."""
    place = folder / ".venv"
    venv.create(place, symlinks=True)
    packages = sysconfig.get_path("purelib")
    (Path(sysconfig.get_path("purelib", vars={"base": str(place)})) / "checkout.pth").write_text(
        f"{folder}\n{packages}\n"
    )
    python = place / "bin" / "python"
    for program in Path(sys.executable).parent.iterdir():
        own = python.with_name(program.name)
        if own.exists() or program.is_dir():
            continue
        head, _, rest = program.read_bytes().partition(b"\n")
        if head == b"#!" + os.fsencode(sys.executable):
            own.write_bytes(b"#!" + os.fsencode(python) + b"\n" + rest)
            own.chmod(0o755)
        else:
            own.symlink_to(program)
    return python


def run_all(root: Path, chosen: Sequence[Mutation], jobs: int) -> list[Finding]:
    """Try the mutations in `jobs` copies and print a row for each. Raises Unusable."""
    for mutation in chosen:
        mutation.line(root)
    with tempfile.TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as name:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            folder = Path(name) / f"copy-{number}"
            folder.mkdir()
            copies.put(Copy(root, folder))
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        copy = copies.get()
        side_by_side = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        code, output = copy.run_tests(tests, *side_by_side, max_seconds=MAX_UNCHANGED_SECONDS)
        copies.put(copy)
        if code != 0:
            raise Unusable(f"the tests fail without any mutation:\n{output[-2000:]}")

        def try_out(mutation: Mutation) -> Finding:
            copy = copies.get()
            try:
                finding = copy.try_out(mutation)
            finally:
                copies.put(copy)
            print(format_row(root, finding), flush=True)  # noqa: T201
            return finding

        with ThreadPoolExecutor(jobs) as threads:
            return list(threads.map(try_out, chosen))


def format_row(root: Path, finding: Finding) -> str:
    """Return the row of the table: place, fault, the test that found it, seconds."""
    mutation = finding.mutation
    place = f"{mutation.path.removeprefix('patchbay/')}:{mutation.line(root)}"
    return f"{place:44}  {mutation.why:72}  {finding.found_by or 'NOT FOUND':90}  {finding.seconds:5.1f} s"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Try the mutations; return 0 if enough of them were found, 1 if not, 2 if they cannot run."""
    parser = argparse.ArgumentParser(prog="scripts/mutations", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="those with this text in their path or sentence")
    parser.add_argument("--list", action="store_true", help="show the mutations and their tests; run nothing")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutations at a time (default: 2)")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    try:
        recorded, mutations = load(root)
        chosen = [each for each in mutations if options.only in each.path or options.only in each.why]
        if not chosen:
            raise Unusable(f"no mutation has {options.only!r} in its path or sentence; --list shows all")
        if options.list:
            for each in chosen:
                print(f"{each.path}:{each.line(root)}  {each.why}  {' '.join(each.tests)}")  # noqa: T201
            return 0
        findings = run_all(root, chosen, max(1, options.jobs))
    except Unusable as problem:
        print(f"scripts/mutations: {problem}", file=sys.stderr)  # noqa: T201
        return 2
    wanted = recorded if len(chosen) == len(mutations) else len(chosen)
    found = sum(bool(finding.found_by) for finding in findings)
    print(f"found {found} of {len(chosen)}; expected {wanted}; {time.monotonic() - begun:.0f} s")  # noqa: T201
    return 0 if found >= wanted else 1


if __name__ == "__main__":
    sys.exit(main())
