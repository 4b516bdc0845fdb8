"""The stores of packages that a confined program has: each one in which a launcher writes is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.processes.confinement.package_stores import find_store_variables


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("UV_TOOL_DIR", ".local/share/uv/tools"),
        ("UV_CACHE_DIR", ".cache/uv"),
        ("npm_config_cache", ".npm"),
    ],
)
def test_a_store_in_which_a_launcher_writes_is_that_of_the_program(tmp_path: Path, name: str, place: str) -> None:
    """`uvx` makes temporary files in the folder of tools, also where the user has installed some there."""
    (tmp_path / "home" / place).mkdir(parents=True)
    found = find_store_variables({"HOME": str(tmp_path / "home")}, tmp_path / "own")
    assert found[name] == str(tmp_path / "own" / place)
