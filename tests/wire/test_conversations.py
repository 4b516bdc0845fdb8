"""Every conversation in `conversations/`, over each transport that it names, each with a hub of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchbay.setting_values.rows import converted
from patchbay.settings import Settings
from tests.hubs import Hub
from tests.wire.happenings import Stage
from tests.wire.players import play
from tests.wire.scripts import Script, read

FOLDER = Path(__file__).parent
SCRIPTS = {file: read(file.read_text("utf-8")) for file in sorted((FOLDER / "conversations").rglob("*.txt"))}
SERVED = {file.name: file.read_text("utf-8") for file in (FOLDER / "servers").iterdir() if file.is_file()}
# The same functions at another address, where the names of `wire` are unknown.
SERVED["twin.py"] = SERVED["wire.py"]
PLAYED = [
    pytest.param(file, over, id=f"{file.relative_to(FOLDER / 'conversations').with_suffix('')}-{over}")
    for file, script in SCRIPTS.items()
    for over in script.over
]


def settings_of(script: Script) -> dict[str, Any]:
    """The hub's settings for a conversation; silence is short, so that a bound is soon noticed."""
    rows = {row.name: row for row in Settings.rows()}
    given = {"keepalive": "0.2"} | script.settings
    return {name: converted(rows[name], text, name) for name, text in given.items()}


@pytest.mark.parametrize(("file", "over"), PLAYED)
def test_a_conversation_goes_as_it_is_written(file: Path, over: str, tmp_path: Path) -> None:
    """SUB-8 to SUB-43, X-1 to X-13, each as the conversation's comment says."""
    script = SCRIPTS[file]
    stage = Stage(lambda: Hub(tmp_path, SERVED, **settings_of(script)))
    try:
        play(stage, script, over)
    finally:
        stage.hub.close()


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_a_conversation_says_what_it_shows_and_where_the_rule_stands(file: Path) -> None:
    assert "Source: " in SCRIPTS[file].comment
    assert set(SCRIPTS[file].over) <= {"http", "stdio"}
