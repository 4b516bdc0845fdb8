"""The front matter of a skill is read as its server reads it. Issue 33 part 9."""

from __future__ import annotations

from hashlib import sha256

import pytest

from patchbay.client.errors import McpFailure
from patchbay.client.sources.skills import load_skill
from patchbay.yaml_core.strict import parse_front_matter

TEXT = "---\nname: cook\ndescription: no\nmetadata: {since: 2024-01-02, at: 12:30:00, on: yes}\n---\nCook.\n"


class _Server:
    """A connection that serves one text."""

    def read_resource(self, _uri: str) -> dict[str, object]:
        return {"contents": [{"text": TEXT}]}


def _entry(frontmatter: dict[str, object]) -> dict[str, object]:
    digest = f"sha256:{sha256(TEXT.encode()).hexdigest()}"
    file = {"uri": "skill://cook/SKILL.md", "size": len(TEXT), "digest": digest}
    return {"uri": file["uri"], "frontmatter": frontmatter, "resources": [file]}


def test_the_client_reads_texts_that_yaml_1_1_changes() -> None:
    """33.9: one reader for the hub and the client."""
    written = {
        "name": "cook",
        "description": "no",
        "metadata": {"since": "2024-01-02", "at": "12:30:00", "on": "yes"},
    }
    assert parse_front_matter(TEXT) == written
    assert load_skill(_Server(), _entry(written)) == TEXT  # type: ignore[arg-type]
    with pytest.raises(McpFailure, match="differs from its entry in description"):
        load_skill(_Server(), _entry(written | {"description": False}))  # type: ignore[arg-type]
