"""Search by meaning in a library: what is found, why, and what is never found; kills, full disks, other models."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.documents.collection import Library
from patchbay.documents.search_results import answered, told
from patchbay.embeddings.selection import OFF, select
from tests.checkout import ROOT
from tests.embeddings.small_models import GROUPS, make_model
from tests.waiting import until

PICTURES = "# Pictures\n\nIntro.\n\n## Making them smaller\n\nThe scale of an image.\n"
COOKING = "# Cooking\n\nA broth.\n"


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    folder = make_model(tmp_path / "model")
    select(str(folder))
    yield folder
    select("")


@pytest.fixture
def filled(root: Path, library: Library, model: Path) -> Library:
    (root / "pictures.md").write_text(PICTURES)
    (root / "cooking.md").write_text(COOKING)
    library.refresh()
    assert not library.embed()
    return library


def keys(library: Library, query: str, **more: Any) -> list[str]:
    return [hit.row.key for hit in library.search(query, **more).hits]


def page(library: Library, query: str) -> dict[str, Any]:
    return answered(library, query, {}, lambda row: {"uri": row.key, "title": row.title})


def test_a_document_is_found_by_what_it_says_in_other_words_with_its_section_and_the_reason(filled: Library) -> None:
    value = page(filled, "photo size")
    (found,) = value["results"]
    assert (found["uri"], found["why"]) == ("pictures.md", "meaning")
    assert found["section"] == {"title": "Making them smaller", "anchor": "making-them-smaller"}
    assert value["total"] == 1 and not value["every"]
    assert "Found by its meaning" in told(value)
    assert [one["why"] for one in page(filled, "broth")["results"]] == ["both"]


def test_a_phrase_a_beginning_and_an_identifier_that_documents_have_are_answered_by_words_alone(
    root: Path, filled: Library
) -> None:
    (root / "other.md").write_text("# Other\n\nsoup_size\n")
    filled.refresh()
    filled.embed()
    assert keys(filled, "soup_size") == ["other.md"]
    assert keys(filled, '"a broth"') == ["cooking.md"]
    assert keys(filled, "brot*") == ["cooking.md"]


def test_a_title_that_is_the_query_is_first(root: Path, filled: Library) -> None:
    for number in range(5):
        (root / f"more{number}.md").write_text(f"# About broth {number}\n\nsoup broth soup broth\n")
    (root / "exact.md").write_text("# Broth\n\nNothing else.\n")
    filled.refresh()
    filled.embed()
    assert keys(filled, "broth")[0] == "exact.md"


def test_a_deleted_document_is_never_found_nor_takes_the_place_of_another_one(root: Path, filled: Library) -> None:
    for number in range(30):
        (root / f"copy{number}.md").write_text(PICTURES)
    filled.refresh()
    filled.embed()
    for number in range(30):
        filled.delete(f"copy{number}.md")
    assert keys(filled, "photo size", limit=50) == ["pictures.md"]
    (root / "pictures.md").unlink()
    filled.refresh()
    assert keys(filled, "photo size") == []


def test_labels_and_paths_that_may_not_be_found_are_decided_before_the_ranking(root: Path, filled: Library) -> None:
    (root / "secret" / "deep").mkdir(parents=True)
    for number in range(30):
        (root / "secret" / "deep" / f"{number}.md").write_text(PICTURES)
    filled.refresh()
    filled.embed()
    assert keys(filled, "photo size", limit=50, may_find=lambda path: not path.startswith("secret/")) == ["pictures.md"]
    assert "pictures.md" not in keys(filled, "photo size", where={"top": "secret"}, limit=50)
    assert len(keys(filled, "photo size", where={"top": "secret"}, limit=50)) == 20


def test_a_changed_document_is_found_by_its_new_meaning_only(root: Path, filled: Library) -> None:
    (root / "pictures.md").write_text("# Watch\n\nThe guard.\n")
    filled.refresh()
    assert keys(filled, "photo size") == []
    filled.embed()
    assert keys(filled, "photo size") == []
    assert keys(filled, "duty") == ["pictures.md"]


def test_an_outside_edit_is_found_by_its_meaning_soon(root: Path, library: Library, model: Path) -> None:
    (root / "cooking.md").write_text(COOKING)
    library.start()
    until(lambda: keys(library, "soup") == ["cooking.md"])
    (root / "pictures.md").write_text(PICTURES)
    until(lambda: keys(library, "photo size") == ["pictures.md"])


def test_the_vectors_stay_in_the_file_of_the_index_for_the_next_process(root: Path, filled: Library) -> None:
    with Library(root) as other:
        assert other.not_embedded == 0
        assert keys(other, "photo size") == ["pictures.md"]


def test_another_model_embeds_everything_again_and_the_earlier_one_answers_meanwhile(
    root: Path, filled: Library, tmp_path: Path
) -> None:
    second = make_model(tmp_path / "second", (("photo", "broth"), ("size",), ("soup",)))
    select(str(second))
    assert filled.not_embedded == 2
    assert keys(filled, "photo size") == ["pictures.md"]  # by the first model
    filled.embed()
    assert filled.not_embedded == 0
    assert keys(filled, "photo") == ["cooking.md"]  # by the second one
    assert len(filled._index.meaning._attachments.kinds()) == 1


def test_without_the_files_of_the_earlier_model_words_answer_meanwhile(
    root: Path, filled: Library, model: Path, tmp_path: Path
) -> None:
    second = make_model(tmp_path / "second", GROUPS[::-1])
    for one in model.iterdir():
        one.unlink()
    select(str(second))
    assert keys(filled, "photo size") == [] and keys(filled, "broth") == ["cooking.md"]


def test_a_full_disk_leaves_searches_by_words_and_the_vectors_follow_later(
    root: Path, library: Library, model: Path
) -> None:
    (root / "pictures.md").write_text(PICTURES)
    library.refresh()
    connection = library._index.index._connection
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Exception, match="full"):
        library.embed()
    assert keys(library, "scale") == ["pictures.md"]
    connection.execute("PRAGMA max_page_count = 100000")
    library.embed()
    assert keys(library, "photo size") == ["pictures.md"]


EMBED = """
import sys
from pathlib import Path
from patchbay.documents.collection import Library
from patchbay.embeddings.selection import select
select(sys.argv[2])
with Library(Path(sys.argv[1])) as library:
    library.refresh()
    while library.embed(0):
        print(library.not_embedded, flush=True)
    print("done", flush=True)
"""


def embedding(root: Path, model: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", EMBED, str(root), str(model)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_kill_in_the_middle_keeps_what_was_made(root: Path, library: Library, model: Path) -> None:
    for number in range(200):
        (root / f"{number}.md").write_text(PICTURES + str(number))
    with embedding(root, model) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    library.refresh()
    assert 0 < library.not_embedded < 200
    assert keys(library, "photo size")
    library.embed()
    assert library.not_embedded == 0


def test_several_processes_make_each_vector_once_while_documents_change(
    root: Path, library: Library, model: Path
) -> None:
    for number in range(100):
        (root / f"{number}.md").write_text(PICTURES + str(number))
    processes = [embedding(root, model) for _ in range(4)]
    library.refresh()
    for number in range(50):
        library.replace(f"{number}.md", f"# Watch {number}\n\nThe guard.\n")
    for process in processes:
        output, _ = process.communicate()
        assert "done" in output
    library.refresh()
    library.embed()
    assert {hit.row.key for hit in library.search("duty", limit=200).hits} <= {f"{number}.md" for number in range(50)}
    count = library._index.meaning._attachments.kinds()
    assert [many for _, many in count.values()] == [100]


def test_a_library_that_is_switched_to_words_answers_as_without_the_packages(root: Path, filled: Library) -> None:
    select(OFF)
    (found,) = page(filled, "broth")["results"]
    assert "why" not in found
    assert page(filled, "photo size")["results"] == []
