"""scripts/test --changed: the tests of what changed are chosen, in small checkouts and in this one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.changed_tests import EVERYTHING, FOLDERS, choose, main
from tests.checkout import ROOT

FILES = {
    "patchbay/__init__.py": "",
    "patchbay/stores/__init__.py": "",
    "patchbay/stores/memory.py": "",
    "patchbay/stores/disk/__init__.py": "",
    "patchbay/stores/disk/file.py": "",
    "patchbay/wire/http.py": "from patchbay.stores.memory import Store\nPAGE = 'page.html'\n",
    "templates/page.html": "",
    "docs/stores.md": "",
    "tests/conftest.py": "",
    "tests/test_layers.py": "",
    "tests/stores/conftest.py": "",
    "tests/stores/test_memory.py": "from patchbay.stores import memory\n",
    "tests/stores/deep/test_all.py": "",
    "tests/wire/hub.py": "from patchbay.stores.memory import Store\n",
    "tests/wire/program.py": "",
    "tests/wire/test_http.py": "from patchbay.wire import http\nPROGRAM = 'program.py'\n",
    "tests/web/test_page.py": "",
    "tests/cli/test_hub.py": "from tests.wire.hub import Store\n",
    "tests/cli/test_docs.py": "PAGE = 'docs/stores.md'\nPROGRAM = 'scripts/test'\n",
    "tests/cli/test_help.py": "",
    "pyproject.toml": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, on its branch `work`, which has left `main` without a change."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / ".gitignore").write_text("made/\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "work")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a change")


HOUSE = "tests/test_layers.py"


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("patchbay/stores/memory.py", ["cli/test_hub.py", "stores/test_memory.py"]),
        ("patchbay/stores/disk/file.py", ["stores/test_memory.py"]),
        ("patchbay/wire/http.py", ["wire/test_http.py"]),
        ("patchbay/wire/removed.py", ["wire/test_http.py"]),
        ("tests/cli/test_help.py", ["cli/test_help.py"]),
        ("tests/cli/test_removed.py", []),
        ("tests/stores/conftest.py", ["stores/deep/test_all.py", "stores/test_memory.py"]),
        ("tests/wire/hub.py", ["cli/test_hub.py"]),
        ("tests/wire/program.py", ["wire/test_http.py"]),
        ("templates/page.html", ["web/test_page.py", "wire/test_http.py"]),
        ("docs/stores.md", ["cli/test_docs.py"]),
        ("LICENSE", []),
        ("scripts/test", ["cli/test_docs.py"]),
    ],
)
def test_the_tests_of_a_changed_file_are_chosen(checkout: Path, changed: str, chosen: list[str]) -> None:
    assert choose([changed], checkout) == sorted([HOUSE, *(f"tests/{path}" for path in chosen)])


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py"])
def test_all_tests_are_chosen_for_a_file_on_which_each_depends(checkout: Path, changed: str) -> None:
    assert choose([changed, "LICENSE"], checkout) == ["tests"]


def test_commits_changes_and_new_files_count_and_those_of_the_base_do_not(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests/cli/test_help.py").write_text("# committed\n")
    commit(checkout)
    git(checkout, "checkout", "--quiet", "main")
    (checkout / "tests/web/test_page.py").write_text("# a commit of main after this branch left it\n")
    commit(checkout)
    git(checkout, "checkout", "--quiet", "work")
    (checkout / "tests/wire/test_http.py").write_text("# changed\n")
    (checkout / "tests/wire/test_new.py").write_text("# new\n")
    (checkout / "made").mkdir()
    (checkout / "made" / "pyproject.toml").write_text("# ignored\n")
    assert main([], checkout) == 0
    printed = capsys.readouterr()
    chosen = ["tests/cli/test_help.py", HOUSE, "tests/wire/test_http.py", "tests/wire/test_new.py"]
    assert printed.out.splitlines() == chosen
    assert printed.err == "Patchbay: 3 files differ from main: 4 test files.\n"
    assert main(["HEAD"], checkout) == 0
    assert "tests/cli/test_help.py" not in capsys.readouterr().out


def test_no_test_is_chosen_where_nothing_changed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list of paths would let pytest run everything: the caller stops."""
    assert main([], checkout) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Patchbay: nothing differs from main: no test is chosen.\n")


def test_an_unknown_base_is_an_error_that_names_it(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-branch"], checkout) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Patchbay: no-such-branch is no commit that shares one with HEAD")
    assert "name a branch or a commit" in printed.err


def test_the_folders_and_files_of_the_rules_exist() -> None:
    for path in (*EVERYTHING, *FOLDERS, *(each for tests in FOLDERS.values() for each in tests)):
        assert (ROOT / path).exists(), path


def test_a_module_of_this_checkout_has_its_mirrored_tests_and_not_those_of_other_packages() -> None:
    chosen = choose(["patchbay/fulltext/index.py"], ROOT)
    assert "tests/fulltext/test_index.py" in chosen
    assert not [path for path in chosen if path.startswith(("tests/browser/", "tests/access/"))]
