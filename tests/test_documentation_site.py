"""The site of the documentation: it builds without a warning, loads nothing, and its search knows every page."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from scripts.documentation_site import TOP_PAGES, site_links
from tests.checkout import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `scripts/docs` builds it, into another folder."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        ["scripts/docs", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) > 25
    loaded = re.compile(r"<(?:script|img|iframe)[^>]* src=[\"']?(?:https?:)?//|<link[^>]* href=[\"']?(?:https?:)?//")
    assert [page.name for page in pages if loaded.search(page.read_text("utf-8"))] == []


def test_the_search_knows_every_page_without_a_web_server(site: Path) -> None:
    """Issue 17 part 8: searchable, offline. The index is a script too, because a page of a file cannot fetch."""
    index = json.loads((site / "search" / "search_index.json").read_bytes())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.name for page in site.glob("*.html")} - {"404.html"}
    assert pages == found
    assert (site / "search" / "search_index.js").read_text("utf-8").startswith("var __index = ")


def test_the_top_pages_of_the_repository_are_pages_of_the_site(site: Path) -> None:
    for name in TOP_PAGES:
        title = (ROOT / name).read_text("utf-8").partition("\n")[0].removeprefix("# ")
        assert f"{title}</h1>" in re.sub(
            r"<a class=\"headerlink\".*?</a>", "", (site / name).with_suffix(".html").read_text("utf-8")
        )


@pytest.mark.parametrize(
    ("page", "text", "changed"),
    [
        ("index.md", "[a](../ARCHITECTURE.md)", "[a](ARCHITECTURE.md)"),
        ("clients.md", "[a](../README.md#start)", "[a](index.md#start)"),
        ("CONTRIBUTING.md", "[a](docs/pages.md#x)", "[a](pages.md#x)"),
        ("ARCHITECTURE.md", "![a](docs/images/b.svg)", "![a](images/b.svg)"),
        ("security.md", "[test_a.py](../tests/attacks/test_a.py)", "test_a.py (`tests/attacks/test_a.py`)"),
        ("security.md", "[`test_a.py`](../tests/attacks/test_a.py)", "`test_a.py`"),
        ("index.md", "[a](https://example.org/x.md) [b](#here)", "[a](https://example.org/x.md) [b](#here)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page: str, text: str, changed: str) -> None:
    present = {"index.md", "ARCHITECTURE.md", "pages.md", "clients.md"}
    assert site_links(text, page, present.__contains__) == changed
