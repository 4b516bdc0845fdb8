"""What `patchbay` exports for authors of definitions, and that the shipped definitions keep to it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import patchbay
from tests.checkout import ROOT

CONTRACT = {*patchbay.EXPORTS, "STARTED", "__version__"}
SHIPPED = [
    *(ROOT / "reference_templates" / "servers" / "definitions").glob("*.py"),
    *(ROOT / "reference_templates" / "mcps" / "transforms").glob("*.py"),
    *(ROOT / "servers").glob("*.py"),
]


def names_from_patchbay(path: Path) -> Iterator[str]:
    """Everything of the package that a definition imports, in full, such as `patchbay.Data`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "patchbay")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "patchbay":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_definition_imports_only_what_authors_may(path: Path) -> None:
    allowed = {"patchbay", *(f"patchbay.{name}" for name in CONTRACT)}
    assert set(names_from_patchbay(path)) - allowed == set()


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_every_name_of_the_contract_can_be_imported_and_is_documented(name: str) -> None:
    assert getattr(patchbay, name) is not None
    page = (ROOT / "docs" / "definitions.md").read_text("utf-8")
    assert f"`{name}`" in page or f"`{name}(" in page


def test_a_name_outside_the_contract_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = patchbay.Nothing


def test_importing_the_package_loads_nothing_else_of_it() -> None:
    program = "import sys, patchbay; print(sorted(name for name in sys.modules if name.startswith('patchbay.')))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['patchbay.old_paths']"
