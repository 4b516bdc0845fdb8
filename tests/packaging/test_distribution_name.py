"""The name of the package: `patchbay` at PyPI is another project, which no sentence of ours may install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from patchbay.serving.next_step import DISTRIBUTION, find_source
from tests.checkout import ROOT

OTHER_PROJECT = re.compile(
    r"(pip install|uv add|pipx install|uv tool install|pip index versions)\b[^\n`]*[\s'\"=]patchbay(?![\w/.-])"
    r"|\buvx( --python \S+)? patchbay\b|\bpatchbay\[\w"
)
"""A command that would fetch the other project, or an extra of it."""


def texts() -> list[Path]:
    folders = ("patchbay", "docs", "deploy", "scripts", "templates")
    suffixes = {".py", ".md", ".html", ".yaml", ".service", ""}
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [path for path in inside if path.suffix in suffixes] + [*ROOT.glob("*.md"), ROOT / "Containerfile"]


def test_the_package_has_a_name_that_is_not_another_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION == "patchbay-hub"
    assert set(project["scripts"]) == {"patchbay", "jn"}


def test_no_sentence_installs_the_project_of_that_name_at_pypi() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if OTHER_PROJECT.search(line)
    }
    assert not found, "\n".join(sorted(found))


def test_a_checkout_is_named_by_its_package() -> None:
    """Without a record of the installation (PEP 610), or with that of this folder."""
    assert find_source() == DISTRIBUTION or find_source().startswith("file://")
