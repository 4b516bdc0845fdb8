"""Hooks of MkDocs for the site of the documentation: pages from the top of the repository, and links out of the site.

ARCHITECTURE.md and others stand at the top of the repository, where developers look for them. The site has them as
pages. A link to a source file becomes the name of the file, because the site does not have it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
TOP_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
HOME_PAGE = "index.md"

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?:|mailto:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<target>(?!https?:)[^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the repository."""
    for name in TOP_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change the links of a page to those of the site."""
    return site_links(markdown, page.file.src_uri, lambda path: files.get_file_from_path(path) is not None)


def site_links(markdown: str, name: str, is_in_site: Callable[[str], bool]) -> str:
    """Return a page's Markdown with the links of the site. `name` is the page's path in the site."""
    folder = "" if name in TOP_PAGES else "docs"

    def place_in_site(target: str) -> str:
        path = posixpath.normpath(posixpath.join(folder, target))
        return HOME_PAGE if path == "README.md" else path.removeprefix("docs/")

    def change_link(match: re.Match[str]) -> str:
        place = place_in_site(match["target"])
        if is_in_site(place):
            return f"[{match['text']}]({place}{match['anchor'] or ''})"
        return match["text"] if "`" in match["text"] or "/" not in place else f"{match['text']} (`{place}`)"

    def change_image(match: re.Match[str]) -> str:
        return f"![{match['text']}]({place_in_site(match['target'])})"

    return IMAGE.sub(change_image, LINK.sub(change_link, markdown))
