"""The generator: leaves first, the same bytes everywhere, and a check that names what changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchbay.assets import REFERENCE_TEMPLATES as FOLDER
from patchbay.boot.generate import GENERATED, BootImageGenerator, generated_files, main
from patchbay.cid import cid_of
from patchbay.errors import ConfigError
from tests.checkout import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sources alone, without anything generated, in a folder of another name."""
    copy = tmp_path / "sources"
    shutil.copytree(FOLDER, copy)
    for pattern in GENERATED:
        for file in copy.glob(pattern):
            file.unlink()
    return copy


def run(folder: Path, *more: str) -> int:
    return main(["--folder", str(folder), *more])


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def image(folder: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / f"{name}.boot.json").read_bytes())
    return loaded


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_mcps_json_is_made_with_cids_from_the_leaves_up(folder: Path) -> None:
    """T10.1, VWR-13, VWR-33, V-C9"""
    assert run(folder) == 0
    mcps = json.loads((folder / "mcps.json").read_bytes())
    assert set(mcps) >= {"echo", "markdown", "jq", "date", "mcp"}
    for entry in mcps.values():
        assert set(entry) == {"config_cid"}
        assert cid_of((folder / "cids" / entry["config_cid"]).read_bytes()) == entry["config_cid"]
    config = json.loads((folder / "cids" / mcps["jq"]["config_cid"]).read_bytes())
    for key, source in (("tools_transform_cid", "jq_tools.py"), ("resources_transform_cid", "jq_resources.py")):
        assert config[key] == cid_of((folder / "mcps" / "transforms" / source).read_bytes())
        assert (folder / "cids" / config[key]).is_file()


@pytest.mark.parametrize("name", ["default", "readonly"])
def test_both_boots_list_the_server_mcp_and_the_variable_mcps(folder: Path, name: str) -> None:
    """T10.3, T10.4, VWR-34"""
    assert run(folder) == 0
    made = image(folder, name)
    assert made["readonly"] is (name == "readonly")
    servers = {row["name"]: row for row in made["servers"]}
    assert {(name, row["kind"]) for name, row in servers.items()} >= {
        ("mcp", "python"),
        ("echo", "shell"),
        ("markdown", "python"),
        ("jq", "python"),
        ("date", "shell"),
    }
    assert servers["mcp"]["enabled"] is True
    assert servers["mcp"]["definition_cid"] == cid_of((folder / "servers/definitions/mcp.py").read_bytes())
    mcps = cid_of((folder / "mcps.json").read_bytes())
    assert made["variables"] == [{"name": "mcps", "definition": mcps, "enabled": True}]
    assert [row["name"] for row in made["templates"]] == ["mcp/error.html", "mcp/instruction.html", "mcp/meta.html"]
    assert (folder / f"{name}.boot.cid").read_text() == cid_of((folder / f"{name}.boot.json").read_bytes()) + "\n"


def test_both_steps_of_the_plan_are_there_to_be_called(folder: Path) -> None:
    """VWR-33 generate_mcps_json and generate_boot_json(name, mcps_cid=None)"""
    generator = BootImageGenerator(folder)
    mcps_cid = generator.generate_mcps_json()
    assert json.loads(generator.generate_boot_json("default", mcps_cid))["variables"][0]["definition"] == mcps_cid
    with pytest.raises(ConfigError, match=r"GENERATED:mcps\.json"):
        generator.generate_boot_json("default")


def test_the_same_sources_make_the_same_bytes_whatever_the_machine(folder: Path, tmp_path: Path) -> None:
    """Line endings, hash seeds, locales and folders do not matter."""
    assert run(folder) == 0
    other = tmp_path / "elsewhere" / "reference_templates"
    shutil.copytree(FOLDER, other)
    for file in other.rglob("*"):
        if file.is_file() and "cids" not in file.parts:
            file.write_bytes(file.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "generate_boot_image.py", "--folder", str(other)]
    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode == 0
    assert generated_files(other) == generated_files(folder)


def test_generating_again_writes_nothing(folder: Path) -> None:
    assert run(folder) == 0
    for file in folder.rglob("*"):
        os.utime(file, (1, 1))
    assert run(folder) == 0
    assert {file.stat().st_mtime for file in folder.rglob("*") if file.is_file()} == {1}


def test_the_blobs_beside_the_images_are_exactly_those_they_need(folder: Path) -> None:
    (folder / "cids").mkdir(exist_ok=True)
    old = folder / "cids" / cid_of(b"of an older image")
    old.write_bytes(b"of an older image")
    assert run(folder) == 0
    assert not old.exists()
    needed = {image(folder, "default")["variables"][0]["definition"]}
    mcps = json.loads((folder / "mcps.json").read_bytes())
    for cid in (entry["config_cid"] for entry in mcps.values()):
        config = json.loads((folder / "cids" / cid).read_bytes())
        needed |= {cid, *(value for key, value in config.items() if key.endswith("_cid"))}
        needed |= {file["cid"] for skill in config.get("skills", {}).values() for file in skill.values()}
    for name in ("default", "readonly"):
        made = image(folder, name)
        needed |= {row["definition_cid"] for row in made["servers"]} | {row["cid"] for row in made["templates"]}
    assert {file.name for file in (folder / "cids").iterdir()} == needed


def test_a_check_right_after_generating_is_quiet_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder) == 0
    before = content(folder)
    assert run(folder, "--check") == 0
    assert "up to date" in capsys.readouterr().out
    assert content(folder) == before


@pytest.mark.parametrize(
    "source",
    [
        "mcps.source.json",
        "templates.source.json",
        "default.boot.source.json",
        "mcps/configs/echo.json",
        "mcps/transforms/jq_tools.py",
        "servers/definitions/markdown.py",
        "servers/templates/mcp.json",
        "servers/templates/mcp/meta.html",
    ],
)
def test_a_check_names_the_source_that_changed_and_nothing_else(
    folder: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder) == 0
    with (folder / source).open("ab") as file:
        file.write(b"\n")
    before = content(folder)
    capsys.readouterr()
    assert run(folder, "--check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("changed source")] == [
        f"changed source: reference_templates/{source}"
    ]
    assert content(folder) == before
    assert run(folder) == 0
    assert run(folder, "--check") == 0


def test_a_change_of_a_transform_makes_everything_above_it_stale(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """V-C9"""
    assert run(folder) == 0
    edit(folder / "mcps/transforms/jq_tools.py", "List keys", "List the keys")
    capsys.readouterr()
    assert run(folder, "--check") == 1
    said = capsys.readouterr().out
    for path in ("mcps.json", "default.boot.json", "default.boot.cid", "readonly.boot.json", "readonly.boot.cid"):
        assert f"stale: reference_templates/{path}\n" in said


def test_a_check_notices_generated_files_that_were_edited_removed_or_added(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder) == 0
    (folder / "default.boot.json").write_bytes(b"{}")
    (folder / "readonly.boot.cid").unlink()
    (folder / "cids" / cid_of(b"extra")).write_bytes(b"extra")
    (folder / "sources.json").write_bytes(b"[]")
    capsys.readouterr()
    assert run(folder, "--check") == 1
    said = capsys.readouterr().out
    assert "stale: reference_templates/default.boot.json" in said
    assert "missing: reference_templates/readonly.boot.cid" in said
    assert f"no longer needed: reference_templates/cids/{cid_of(b'extra')}" in said
    assert run(folder) == 0
    assert run(folder, "--check") == 0


@pytest.mark.parametrize(
    ("source", "old", "new", "said"),
    [
        ("mcps.source.json", "configs/echo.json", "configs/gone.json", "mcps/configs/gone.json: expected a file"),
        (
            "mcps.source.json",
            '"echo": {',
            '"echo": [], "x": {',
            'mcps.source.json: at echo: expected an object with "conf',
        ),
        (
            "mcps.source.json",
            "reference_templates/mcps/configs/echo.json",
            "/etc/passwd",
            "echo.config_cid: expected a path",
        ),
        ("mcps.source.json", "mcps/configs/echo.json", "../../outside.json", "expected a file inside the folder"),
        ("mcps/configs/echo.json", "{", "{,", "mcps/configs/echo.json: expected a JSON object"),
        ("mcps/configs/jq.json", "jq_tools.py", "gone.py", "tools_transform_cid: expected a file that exists"),
        ("default.boot.source.json", "echo.sh", "gone.sh", "servers.1.definition_cid: expected a file that exists"),
        ("default.boot.source.json", '"name": "echo"', '"name": "mcp"', "each name once; 'mcp' occurs twice"),
        ("default.boot.source.json", '"version": 1', '"version": 6', "at version: expected the value 1"),
        (
            "default.boot.source.json",
            '["mcp"]',
            '["other"]',
            "expected names of reference_templates/templates.source.json",
        ),
        (
            "default.boot.source.json",
            '"servers": [',
            '"servers": {}, "x": [',
            "at servers: expected an array of objects",
        ),
        (
            "servers/templates/mcp.json",
            "templates/mcp/meta.html",
            "gone.html",
            "templates.mcp/meta.html: expected a file",
        ),
    ],
)
def test_a_source_that_is_missing_or_invalid_is_named_and_nothing_is_written(
    folder: Path, source: str, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder) == 0
    edit(folder / source, old, new)
    before = content(folder)
    capsys.readouterr()
    for arguments in ([], ["--check"]):
        assert run(folder, *arguments) == 2
        captured = capsys.readouterr()
        assert said in captured.err and captured.out == ""
        assert content(folder) == before


def test_a_folder_without_sources_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 2
    assert "reference_templates/mcps.source.json: expected a file that exists" in capsys.readouterr().err


def test_the_files_in_this_repository_are_up_to_date() -> None:
    command = [sys.executable, "generate_boot_image.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
