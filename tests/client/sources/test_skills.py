"""Skills of a server that does not do what it lists: its files are refused, and no file is written outside a folder."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.client.sources import skills
from patchbay.client.sources.skill_folders import save_skill
from patchbay.client.sources.skills import EXTENSION, find_skill, load_files
from patchbay.errors import InvalidParams

HEAD = b"---\nname: weave\ndescription: How to weave\n---\nRead more.txt.\n"


@dataclass
class ListedSkill:
    """The connection to a server with one skill, whose files are `files` and whose entry may differ from them."""

    files: dict[str, bytes]
    entry: dict[str, Any]
    capabilities: dict[str, Any]

    def iterate_pages(self, method: str, key: str) -> Iterator[dict[str, Any]]:
        assert (method, key) == ("skills/list", "skills")
        yield self.entry

    def read_resource(self, uri: str) -> dict[str, Any]:
        return {"contents": [{"uri": uri, "blob": base64.b64encode(self.files[uri]).decode()}]}


def listed(other_uri: str = "skill://weave/docs/more.txt", **changed: Any) -> tuple[Connection, dict[str, Any]]:
    """A connection to a server with one skill of two files, and the skill's entry with changed members."""
    files = {"skill://weave/SKILL.md": HEAD, other_uri: b"more\n"}
    resources = [
        {"uri": uri, "size": len(data), "digest": f"sha256:{sha256(data).hexdigest()}"} for uri, data in files.items()
    ]
    frontmatter = {"name": "weave", "description": "How to weave"}
    entry = {"uri": "skill://weave/SKILL.md", "frontmatter": frontmatter, "resources": resources} | changed
    return cast(Connection, ListedSkill(files, entry, {"extensions": {EXTENSION: {}}})), entry


def test_the_files_of_a_skill_have_their_paths_below_its_folder() -> None:
    connection, entry = listed("skill://weave/docs/more%20text.txt")
    assert find_skill(connection, "weave") == find_skill(connection, "skill://weave/SKILL.md") == entry
    files = dict(load_files(connection, entry))
    assert files == {PurePosixPath("SKILL.md"): HEAD, PurePosixPath("docs/more text.txt"): b"more\n"}


@pytest.mark.parametrize(
    "uri",
    [
        "skill://weave/../../escape",
        "skill://weave/%2e%2e/escape",
        "skill://weave/a%2Fb",
        "skill://weave/a%5Cb",
        "skill://weave//absolute",
        "skill://other/file",
        "file:///etc/passwd",
        "skill://weave/nul%00",
    ],
)
def test_a_file_outside_the_folder_of_its_skill_is_refused(uri: str) -> None:
    connection, entry = listed(uri)
    with pytest.raises(McpFailure, match="expected a file below skill://weave/"):
        dict(load_files(connection, entry))


def test_a_skill_with_too_many_files_or_bytes_is_refused_before_a_file_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, entry = listed()
    cast(ListedSkill, connection).files.clear()
    for limit in ("MAX_FILES", "MAX_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(skills, limit, 1)
            with pytest.raises(McpFailure, match="at most"):
                dict(load_files(connection, entry))


def test_an_unknown_skill_names_the_similar_one_and_a_server_without_the_extension_has_none() -> None:
    connection, _ = listed()
    with pytest.raises(McpFailure, match="did you mean 'weave'"):
        find_skill(connection, "weav")
    cast(ListedSkill, connection).capabilities = {}
    with pytest.raises(McpFailure, match="no other skill"):
        find_skill(connection, "weave")


def test_a_skill_is_saved_whole_and_never_over_a_folder_that_exists(tmp_path: Path) -> None:
    files = {PurePosixPath("SKILL.md"): HEAD, PurePosixPath("docs/more.txt"): b"more\n"}
    folder = save_skill(tmp_path / "skills", "weave", files)
    assert {
        PurePosixPath(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    } == files
    with pytest.raises(InvalidParams, match="exists: remove it"):
        save_skill(tmp_path / "skills", "weave", {PurePosixPath("SKILL.md"): b"other"})
    with pytest.raises(InvalidParams, match="cannot be written"):
        save_skill(tmp_path / "skills", "knit", {PurePosixPath("a"): b"", PurePosixPath("a/b"): b""})
    assert [path.name for path in (tmp_path / "skills").iterdir()] == ["weave"]
    assert (folder / "SKILL.md").read_bytes() == HEAD


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "A", "a" * 65, "a\n"])
def test_a_name_that_cannot_name_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParams, match="lower-case"):
        save_skill(tmp_path, name, {PurePosixPath("SKILL.md"): HEAD})
    assert list(tmp_path.iterdir()) == []
