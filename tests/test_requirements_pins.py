"""Dependencies: every import is declared, and every declared package is pinned within its range."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.checkout import ROOT
from tests.source_modules import statements

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RUNTIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
OPTIONAL = [Requirement(line) for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines]
DEVELOPMENT = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]
OURS = {"patchbay", "app", "generate_boot_image", "scripts", "tests", "benchmarks"}


def pins(name: str) -> dict[str, Version]:
    """Canonical name to exact version of one requirements file."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in found}


def disagreements(ranges: list[Requirement], pinned: dict[str, Version]) -> list[str]:
    """A sentence for every range that no pin satisfies."""
    named = [(one, pinned.get(canonicalize_name(one.name))) for one in ranges]
    return [
        f"{one} is pinned to {version or 'nothing'}; run scripts/lock"
        for one, version in named
        if version is None or not one.specifier.contains(version, prereleases=True)
    ]


def imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and top-level module of every import."""
    for node, _ in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, (node.module or "").split(".")[0]


def inline(text: str) -> set[str]:
    """Names that a program declares for itself alone, in the metadata of PEP 723."""
    found = re.search(r"(?m)^# /// script$\n((?:^#.*$\n)+?)^# ///$", text)
    lines = found[1].splitlines() if found else []
    metadata = tomllib.loads("\n".join(line.removeprefix("#").strip() for line in lines))
    return {canonicalize_name(Requirement(line).name).replace("-", "_") for line in metadata.get("dependencies", [])}


def undeclared(declared: list[Requirement], *patterns: str) -> list[str]:
    """A sentence for every import of these files that no declared distribution offers."""
    names = {canonicalize_name(one.name) for one in declared}
    # A distribution that is not installed here is taken to offer the module of its own name.
    offered = {name.replace("-", "_") for name in names} | {
        module
        for module, distributions in packages_distributions().items()
        if names & {canonicalize_name(distribution) for distribution in distributions}
    }
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    known = offered | OURS | {path.stem for path in paths} | sys.stdlib_module_names
    return [
        f"{path.relative_to(ROOT)}:{line}: {module} is not declared"
        for path in paths
        for text in [path.read_text("utf-8")]
        for line, module in imports(text)
        if module not in known and module not in inline(text)
    ]


def test_requirements_pin_every_range_of_the_project() -> None:
    assert disagreements(RUNTIME, pins("requirements.txt")) == []


def test_development_requirements_pin_every_range() -> None:
    assert disagreements([*RUNTIME, *DEVELOPMENT], pins("requirements-dev.txt")) == []


def test_both_files_agree() -> None:
    runtime, development = pins("requirements.txt"), pins("requirements-dev.txt")
    shared = runtime.keys() & development.keys()
    assert {name: runtime[name] for name in shared} == {name: development[name] for name in shared}


@pytest.mark.slow
def test_the_code_imports_only_what_the_project_declares() -> None:
    code = ("app.py", "generate_boot_image.py", "patchbay/**/*.py", "reference_templates/**/*.py", "servers/*.py")
    assert undeclared([*RUNTIME, *OPTIONAL], *code) == []


@pytest.mark.slow
def test_tests_and_scripts_import_only_what_is_declared() -> None:
    assert undeclared([*RUNTIME, *DEVELOPMENT], "tests/**/*.py", "scripts/*.py", "benchmarks/**/*.py") == []


def test_a_pin_outside_its_range_is_found() -> None:
    assert disagreements([Requirement("flask>=3,<4")], {"flask": Version("4.0")}) != []
    assert disagreements([Requirement("flask>=3,<4")], {}) != []


def test_an_undeclared_import_is_found() -> None:
    assert [fault for fault in undeclared([], "patchbay/cid.py") if fault.endswith("multiformats is not declared")]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_pins_say_how_they_are_made_and_name_no_index(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert "scripts/lock" in text.splitlines()[0]
    assert "://" not in text
