"""docs/exploring.md: every command on the page prints what stands below it, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.checkout import ROOT
from tests.client.peers import fetched, uv_cache

PAGE = (ROOT / "docs" / "exploring.md").read_text("utf-8")
FENCE = re.compile(r"```(\w+)(?: (\S+))?\n(.*?)```", re.DOTALL)


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what is to be printed."""
    pieces = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (piece.partition("\n") for piece in pieces)]


def environment(home: Path) -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("JN_", "PATCHBAY_", "FORCE_"))}
    return {
        **mine,
        "HOME": str(home),
        "PATH": f"{here}:{os.environ['PATH']}",
        "UV_CACHE_DIR": uv_cache(),
        **fetched("mcp-server-time==2026.10.19"),
        "NO_COLOR": "1",
    }


def test_the_five_phases_work_as_the_page_shows_them(tmp_path: Path) -> None:
    """JN-54, JN-55, JN-56, JN-57, JN-58, JN-65: explore, experiment, design, save, use."""
    ran = 0
    for kind, name, block in FENCE.findall(PAGE):
        if name:
            (tmp_path / name).write_text(block)
        for command, shown in commands(block) if kind == "console" else ():
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment(tmp_path),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.stdout.replace(str(tmp_path), "~") == shown, f"{command}\n{done.stderr}"
            ran += 1
    assert ran == len(re.findall(r"^\$ ", PAGE, re.MULTILINE)) > 10


def test_the_page_has_all_five_phases_and_a_prompt_for_a_model() -> None:
    """JN-65: the workflow and the prompt."""
    assert re.findall(r"^## (\d)\. (\w+)", PAGE, re.MULTILINE) == [
        ("1", "Explore"),
        ("2", "Experiment"),
        ("3", "Design"),
        ("4", "Save"),
        ("5", "Use"),
    ]
    prompt = next(block for kind, _, block in FENCE.findall(PAGE) if kind == "text")
    assert all(f"\n{number}. " in prompt for number in range(1, 6))
