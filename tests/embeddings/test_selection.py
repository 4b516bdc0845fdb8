"""Which model a process has: the setting, and what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.embeddings.selection import ModelSelection
from patchbay.errors import ConfigError
from tests.checkout import ROOT
from tests.embeddings.small_models import make_model


def test_the_setting_names_a_folder_the_default_or_none(tmp_path: Path) -> None:
    chosen = ModelSelection(str(make_model(tmp_path)))
    chosen.check()
    model = chosen.load()
    assert model is not None and model.name == str(tmp_path)
    assert chosen.load() is model
    default = ModelSelection().files()
    assert default is not None and default.name == "wordllama"
    assert not ModelSelection("off").is_possible and ModelSelection("off").load() is None


def test_a_folder_without_a_model_is_refused_with_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Model2Vec folder.*no model\.safetensors"):
        ModelSelection(str(tmp_path)).check()
    assert not ModelSelection(str(tmp_path)).is_possible


WITHOUT_PACKAGES = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "tokenizers", "safetensors", "wordllama"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from importlib import machinery, util
real = util.find_spec
from patchbay.embeddings import selection
selection.find_spec = lambda name: None if name in ("numpy", "tokenizers", "safetensors", "wordllama") else real(name)
from pathlib import Path
from patchbay.documents.collection import Library
from patchbay.documents.search_results import answered
assert not selection.ModelSelection().is_possible
with Library(Path(sys.argv[1])) as library:
    library.refresh()
    library.start()
    assert not library.embed() and not library.has_meaning and library.not_embedded == 0
    found = answered(library, "soup", {}, lambda row: {"uri": row.key, "title": row.title})
    assert [set(one) for one in found["results"]] == [{"uri", "title", "score", "matches", "section"}], found
try:
    selection.select(sys.argv[2])
except Exception as problem:
    assert "pip install" in str(problem), problem
else:
    raise AssertionError("expected a refusal")
connection = __import__("sqlite3").connect(Path(sys.argv[1], ".library", "index.sqlite"))
assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'attachment%'").fetchall()
"""


def test_without_the_packages_a_library_answers_as_before_and_its_file_has_no_new_table(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "a.md").write_text("# Cooking\n\nA soup.\n")
    arguments = [str(folder), str(make_model(tmp_path / "model"))]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGES, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_opening_a_library_loads_no_package_of_the_extra(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom patchbay.documents.collection import Library\n"
        "with Library(Path(sys.argv[1])) as library:\n    library.refresh()\n    library.search('soup')\n"
        "assert not {'numpy', 'tokenizers', 'safetensors', 'wordllama'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
