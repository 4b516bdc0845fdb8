"""Chooses the test files for what changed: `scripts/test --changed [BASE]`.

Prints the paths of test files or folders, one on each line, and on standard error how many they are. What changed is
what differs from the commit at which this branch left BASE: commits, changes of the working tree, and new files that
git does not ignore. BASE is a branch, a tag or a commit; without it, it is `main`, or HEAD where there is no `main`.

The choice, for each file that changed:

* a test file: itself; a `conftest.py`: all tests of its folder;
* a module of the package: the test files of the folder that mirrors its folder (the nearest one that exists), and each
  test file that imports it, also through other modules of `tests/`. A test that reaches the module only through other
  modules of the package is left to the whole run;
* another module: each test file that imports it so, or has its file name in its text;
* any other file: the same for each module that has its name in its text, and the folders of `FOLDERS`;
* a file of `EVERYTHING`: all tests.

The test files directly in `tests/`, which look at the whole project, are always chosen.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.source_modules import Module

ROOT = Path(__file__).resolve().parents[1]

SOURCES = ("*.py", "patchbay/**/*.py", "tests/**/*.py", "scripts/**/*.py", "benchmarks/**/*.py")
"""The modules of the project."""

EVERYTHING = frozenset(
    {
        "pyproject.toml",
        "requirements.txt",
        "requirements-dev.txt",
        "scripts/setup",
        "scripts/peers",
        "tests/conftest.py",
    }
)
"""Files on which each test depends."""

FOLDERS = {
    "deploy": ("tests/packaging",),
    "reference_templates": ("tests/boot", "tests/content"),
    "servers": ("tests/content",),
    "static": ("tests/browser", "tests/web"),
    "templates": ("tests/browser", "tests/web"),
}
"""The tests of folders without modules of the package."""


class UnknownBase(Exception):
    """The commit to compare with cannot be found."""


def list_changed(root: Path, base: str | None) -> set[str]:
    """Return the paths, from `root` and with forward slashes, of what differs from the commit shared with `base`.

    A renamed file has both paths, a deleted one its old path. Raises UnknownBase.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise UnknownBase(done.stderr.strip() or f"git {words[0]} failed")
        return done.stdout

    if base is None:
        known = subprocess.run(["git", "rev-parse", "--verify", "--quiet", "main"], cwd=root, capture_output=True)
        base = "HEAD" if known.returncode else "main"
    try:
        shared = git("merge-base", base, "HEAD").strip()
    except UnknownBase as problem:
        raise UnknownBase(
            f"{base} is no commit that shares one with HEAD ({problem}); name a branch or a commit"
        ) from None
    differing = git("diff", "--name-only", "--no-renames", "-z", shared).split("\0")
    new = git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {path for path in (*differing, *new) if path}


def is_test(path: str) -> bool:
    """Whether pytest collects tests from this file."""
    name = PurePosixPath(path).name
    return path.startswith("tests/") and name.startswith("test_") and name.endswith(".py")


class Sources:
    """The modules below `root`, and which of them import or name a file."""

    def __init__(self, root: Path) -> None:
        self.modules = {
            path.relative_to(root).as_posix(): Module(path.relative_to(root).as_posix(), path.read_text("utf-8"))
            for pattern in SOURCES
            for path in root.glob(pattern)
        }
        self._imported: dict[str, frozenset[str]] = {}

    @cached_property
    def tests(self) -> list[str]:
        """The test files."""
        return sorted(filter(is_test, self.modules))

    def importing(self, path: str) -> Iterator[str]:
        """Yield the paths of the modules of `tests/` that import the module at `path`."""
        name = _name_of(path)
        last = name.rpartition(".")[2]
        for other, module in self.modules.items():
            if other.startswith("tests/") and last in module.text and name in self._imports_of(module):
                yield other

    def naming(self, path: str) -> Iterator[str]:
        """Yield the paths of the modules that have the file name of `path` in their text; without suffix, its path."""
        name = PurePosixPath(path).name if PurePosixPath(path).suffix else path
        for other, module in self.modules.items():
            if name in module.text and other != path and not other.endswith("conftest.py"):
                yield other

    def _imports_of(self, module: Module) -> frozenset[str]:
        """Return the full names of what a module imports; each name is there with and without its last part."""
        if module.path not in self._imported:
            names = {name for _, name, _ in module.imports()}
            self._imported[module.path] = frozenset(names | {name.rpartition(".")[0] for name in names})
        return self._imported[module.path]


def _name_of(path: str) -> str:
    """Return the name by which a module is imported: `patchbay/stores/__init__.py` -> `patchbay.stores`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def choose(changed: Iterable[str], root: Path) -> list[str]:
    """Return the test files, or `tests` for all of them, for these changed paths from `root`."""
    if EVERYTHING.intersection(todo := set(changed)):
        return ["tests"]
    sources = Sources(root)
    chosen = {path for path in sources.tests if path.count("/") == 1}
    seen: set[str] = set()
    while todo:
        path = todo.pop()
        seen.add(path)
        chosen.update(_list_own_tests(path, sources))
        todo.update(_list_users(path, sources) - seen)
    return sorted(chosen)


def _list_own_tests(path: str, sources: Sources) -> list[str]:
    """List the tests that stand for a file by their place."""
    place = PurePosixPath(path)
    if is_test(path):
        return [path] if path in sources.modules else []
    if place.name == "conftest.py":
        return [test for test in sources.tests if test.startswith(f"{place.parent}/")]
    if place.parts[0] == "patchbay":
        mirror = PurePosixPath("tests", *place.parts[1:-1])
        for folder in (mirror, *mirror.parents[:-2]):
            if found := [test for test in sources.tests if PurePosixPath(test).parent == folder]:
                return found
    folders = FOLDERS.get(place.parts[0], ())
    return [test for test in sources.tests if test.startswith(tuple(f"{folder}/" for folder in folders))]


def _list_users(path: str, sources: Sources) -> set[str]:
    """List the modules that count as changed because this file did."""
    if not path.endswith(".py"):
        return set(sources.naming(path))
    if is_test(path) or path.endswith("conftest.py"):
        return set()
    users = set(sources.importing(path))
    return (
        users
        if path.startswith("patchbay/")
        else users | {other for other in sources.naming(path) if "tests/" in other}
    )


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the chosen tests; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/test --changed", description="Choose the tests for what changed.")
    parser.add_argument("base", nargs="?", metavar="BASE", help="a branch, a tag or a commit (default: main, or HEAD)")
    given = parser.parse_args(arguments)
    try:
        changed = list_changed(root, given.base)
    except UnknownBase as problem:
        sys.stderr.write(f"Patchbay: {problem}.\n")
        return 2
    if not changed:
        sys.stderr.write(f"Patchbay: nothing differs from {given.base or 'main'}: no test is chosen.\n")
        return 0
    chosen = choose(changed, root)
    size = "all tests" if chosen == ["tests"] else f"{len(chosen)} test files"
    sys.stderr.write(f"Patchbay: {len(changed)} files differ from {given.base or 'main'}: {size}.\n")
    sys.stdout.write("".join(f"{path}\n" for path in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
