"""A store that an earlier version made, opened by this one: every pinned version is served as it was.

Each store was made by the commit in its name, with its default boot image, servers/hello.py and a drop-in that was
changed once. The expected-*.json beside it holds what that commit answered: the lists of every server at its pin, and
some calls. `python -m tests.upgrade.make_store` makes both.
"""

from __future__ import annotations

import ast
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from patchbay.old_paths import OLD_PACKAGES, OLD_PATHS
from tests.hubs import Hub
from tests.upgrade.released import RELEASED, expected, unpack, upgraded

pytestmark = pytest.mark.filterwarnings("default:.* has moved to:DeprecationWarning")

LISTS = [(commit, row) for commit in RELEASED for row in expected(commit)["lists"]]
SAID = [(commit, row) for commit in RELEASED for row in expected(commit)["calls"]]


def name_of(value: Any) -> str:
    """The name of a parameter: the commit, or the address of the row."""
    return value if isinstance(value, str) else str(value["endpoint"])[:16]


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Hub]]:
    folder = tmp_path_factory.mktemp("upgraded")
    found = {commit: upgraded(commit, folder / commit) for commit in RELEASED}
    yield found
    for hub in found.values():
        hub.close()


def without_details(result: dict[str, Any]) -> dict[str, Any]:
    """A result without the fields that newer versions add beside it."""
    return {name: value for name, value in result.items() if name not in ("isError", "_meta")}


@pytest.mark.parametrize(("commit", "row"), LISTS, ids=name_of)
def test_a_pinned_version_lists_what_it_listed(hubs: Mapping[str, Hub], commit: str, row: dict[str, Any]) -> None:
    for method, wanted in row["lists"].items():
        assert without_details(hubs[commit].legacy(row["endpoint"], method, version=None).result) == wanted, method


@pytest.mark.parametrize(("commit", "row"), SAID, ids=name_of)
def test_a_pinned_version_answers_as_it_answered(hubs: Mapping[str, Hub], commit: str, row: dict[str, Any]) -> None:
    answer = hubs[commit].call(row["endpoint"], row["tool"], row["arguments"])
    assert without_details(answer.result)["content"] == row["result"]["content"]


def old_definitions(database: Path) -> Iterator[str]:
    """The text of every Python definition in a store."""
    connection = sqlite3.connect(database)
    try:
        for (data,) in connection.execute("SELECT data FROM blobs"):
            try:
                text = bytes(data).decode("utf-8")
                tree = ast.parse(text)
            except (UnicodeDecodeError, SyntaxError, ValueError):
                continue
            if any(isinstance(node, ast.FunctionDef) for node in tree.body):
                yield text
    finally:
        connection.close()


def imports_of_ours(text: str) -> list[str]:
    """The import statements of a definition that name this package, each on a line."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [line for line in map(ast.unparse, nodes) if "patchbay" in line]


@pytest.fixture
def forget_old_paths() -> Iterator[None]:
    """Old paths that an earlier test has imported are imported anew."""
    for name in (*OLD_PATHS, *OLD_PACKAGES):
        sys.modules.pop(name, None)
    yield


@pytest.mark.usefixtures("forget_old_paths")
def test_every_stored_definition_finds_what_it_imports(tmp_path: Path) -> None:
    databases = [unpack(commit, tmp_path / commit) for commit in RELEASED]
    found = [imports_of_ours(text) for database in databases for text in old_definitions(database)]
    lines = sorted({line for one in found for line in one})
    assert any("patchbay.handlers.processes" in line for line in lines)
    assert any("patchbay.library.jane" in line for line in lines)
    with pytest.warns(DeprecationWarning, match=r"import from patchbay instead"):
        for line in lines:
            exec(line, {})


@pytest.mark.usefixtures("forget_old_paths")
def test_an_import_of_an_old_path_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"handlers\.processes has moved to patchbay\.processes\.program"):
        import_module("patchbay.handlers.processes")


def test_a_path_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("patchbay.handlers.nothing")
