"""`patchbay doctor` names packages that belong to another project than the one that is meant (issue 47 item 16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay.cli.doctor.package_names import check_package_names
from tests.cli.servers.commands import run_command

BLOCK = '# /// script\n# dependencies = ["{}"]\n# ///\ndef main() -> str:\n    return ""\n'


def found(folder: Path) -> list[tuple[str, str]]:
    """The sentence and the mend of each warning."""
    return [(verdict.sentence, verdict.mend) for verdict in check_package_names(folder)]


@pytest.mark.parametrize(
    ("name", "text", "package", "meant"),
    [
        ("one.py", BLOCK.format("patchbay>=0.1"), "patchbay", "patchbay-hub"),
        ("one.py", BLOCK.format("sklearn"), "sklearn", "scikit-learn"),
        ("one.py", BLOCK.format("PIL"), "PIL", "pillow"),
        ("one.mcp.json", '{"requirements": ["yaml"]}', "yaml", "pyyaml"),
        ("far.json", '{"address": "mcp+uvx://patchbay/patchbay"}', "patchbay", "patchbay-hub"),
        ("far.json", '{"address": "mcp+uvx://patchbay@1.0/patchbay"}', "patchbay", "patchbay-hub"),
        ("far.json", '{"address": "mcp+stdio:uvx patchbay stdio"}', "patchbay", "patchbay-hub"),
        ("far.json", '{"address": "mcp+stdio:uvx --from patchbay jn"}', "patchbay", "patchbay-hub"),
        ("far.json", '{"address": "mcp+stdio:uv tool run patchbay"}', "patchbay", "patchbay-hub"),
    ],
)
def test_a_package_of_another_project_is_named_with_the_one_that_is_meant(
    tmp_path: Path, name: str, text: str, package: str, meant: str
) -> None:
    (tmp_path / name).write_text(text)
    sentence = f"{name} names the package {package} of PyPI, which is another project than {meant}"
    assert found(tmp_path) == [(sentence, f"write {meant} in {tmp_path / name}")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one.py", BLOCK.format("patchbay-hub")),
        ("one.py", BLOCK.format("scikit-learn")),
        ("one.py", BLOCK.format("psycopg2")),
        ("one.py", "import yaml\n"),
        ("one.py", "# /// script\n"),
        ("far.json", '{"address": "mcp+uvx://mcp-server-time/mcp-server-time"}'),
        ("far.json", '{"address": "mcp+stdio:patchbay stdio echo"}'),
        ("far.json", '{"address": "mcp+npx://patchbay"}'),
        ("far.json", '{"address": 5, "requirements": ["yaml"]}'),
        ("one.mcp.json", '{"requirements": [5, "!"]}'),
        ("far.json", "{"),
        ("far.json", "[]"),
        ("note.md", "patchbay"),
    ],
)
def test_other_files_give_no_warning(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert found(tmp_path) == []
    assert found(tmp_path / "none") == []


def test_doctor_shows_the_warning_and_is_content_otherwise(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "far.json").write_text('{"address": "mcp+uvx://patchbay/patchbay"}')
    rows = json.loads(run_command(tmp_path, "doctor", "--json").out)
    [row] = [row for row in rows if row["check"] == "package names"]
    assert row["grade"] == "warning" and row["mend"].startswith("write patchbay-hub in ")
