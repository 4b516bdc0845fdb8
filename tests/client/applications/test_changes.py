"""The hub is written into the files of nine clients and removed, byte for byte. Issue 17 item 3."""

from __future__ import annotations

import codecs
import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from patchbay.client.applications.applications import APPLICATIONS
from patchbay.client.applications.changes import MAX_BACKUPS, Change, ServersFile, list_backups, write_change
from patchbay.client.applications.own_entry import make_entry
from patchbay.client.applications.reading import ClientFile, is_own, read_entries
from patchbay.errors import ConfigError
from tests.client.applications.places import NAMES, machine, place_sample, sample

URL = "http://127.0.0.1:8000/mcp"
COMMAND = ("/srv/bin/patchbay", "stdio")


def entry_for(name: str) -> dict[str, Any]:
    return make_entry(APPLICATIONS[name], "patchbay", URL, COMMAND)


def add_final_lines(data: bytes) -> bytes:
    return data + b"\n\n"


def as_windows(data: bytes) -> bytes:
    return codecs.BOM_UTF8 + data.replace(b"\n", b"\r\n")


def without_end(data: bytes) -> bytes:
    return data.rstrip()


FORMATTINGS: dict[str, Callable[[bytes], bytes]] = {
    "as documented": lambda data: data,
    "Windows, with a byte order mark": as_windows,
    "without a final line break": without_end,
    "with empty lines at the end": add_final_lines,
}


def install(file: ClientFile, entry: dict[str, Any]) -> Change:
    change = file.place.plan_install("patchbay", entry)
    write_change(change)
    return change


def uninstall(file: ClientFile) -> None:
    write_change(file.place.plan_removal("patchbay"))


def parse_independently(name: str, data: bytes) -> Any:
    """The value of a file by a library of others, where the file is in a language that one reads."""
    text = data.decode("utf-8-sig")
    if name == "codex":
        return tomllib.loads(text)
    if name == "goose":
        return yaml.safe_load(text)
    return json.loads(text) if name not in ("vscode", "zed", "opencode") else None


@pytest.mark.parametrize("formatting", FORMATTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_an_installed_entry_is_read_and_removed_byte_for_byte(name: str, formatting: str, tmp_path: Path) -> None:
    file = place_sample(name, tmp_path)
    before = FORMATTINGS[formatting](file.path.read_bytes())
    file.path.write_bytes(before)
    others = read_entries(file, machine(tmp_path))
    install(file, entry_for(name))
    after = file.path.read_bytes()
    found = read_entries(file, machine(tmp_path))
    assert [one for one in found if one.name != "patchbay"] == others
    assert [is_own(one.target, 8000) for one in found if one.name == "patchbay"] == [True]
    whole = parse_independently(name, after)
    assert whole is None or whole[file.application.section]["patchbay"] == entry_for(name)
    for line in before.rstrip().split(b"\n"):
        assert line.rstrip(b"\r,") in after
    uninstall(file)
    assert file.path.read_bytes() == before


@pytest.mark.parametrize("name", NAMES)
def test_a_removal_without_a_backup_cuts_out_the_entry_alone(name: str, tmp_path: Path) -> None:
    file = place_sample(name, tmp_path)
    install(file, entry_for(name))
    for backup in list_backups(file.path):
        backup.unlink()
    uninstall(file)
    assert file.path.read_bytes() == sample(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_made_is_deleted(name: str, tmp_path: Path) -> None:
    file = ClientFile(APPLICATIONS[name], APPLICATIONS[name].file(machine(tmp_path)))
    install(file, entry_for(name))
    assert [one.name for one in read_entries(file, machine(tmp_path))] == ["patchbay"]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o644
    uninstall(file)
    assert not file.path.exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_section_that_was_missing_or_empty_is_so_again(name: str, is_empty: bool, tmp_path: Path) -> None:
    row = APPLICATIONS[name]
    file = ClientFile(row, row.file(machine(tmp_path)))
    file.path.parent.mkdir(parents=True, exist_ok=True)
    texts = {"codex": "model = 'a'\n", "goose": "GOOSE_MODE: auto\n"}
    before = texts.get(name, '{\n   "theme": "dark"\n}\n')
    if is_empty:
        before = {"goose": "extensions: {}\n", "codex": "[mcp_servers]\n"}.get(name, f'{{"{row.section}": {{}}}}')
    file.path.write_text(before)
    install(file, entry_for(name))
    uninstall(file)
    assert file.path.read_text() == before


@pytest.mark.parametrize("name", NAMES)
def test_later_edits_of_the_user_stay(name: str, tmp_path: Path) -> None:
    """The removal of our entry equals the same edits without it."""
    file = place_sample(name, tmp_path)
    install(file, entry_for(name))
    tail = b"# later\n" if name in ("codex", "goose") else b"\n"
    other = make_entry(APPLICATIONS[name], "other", "https://other.example/mcp", ("other",))
    write_change(file.place.plan_install("other", other))
    file.path.write_bytes(file.path.read_bytes() + tail)
    uninstall(file)
    plain = place_sample(name, tmp_path / "plain")
    write_change(plain.place.plan_install("other", other))
    assert file.path.read_bytes() == plain.path.read_bytes() + tail


def test_a_section_made_by_the_installation_goes_with_the_entry_though_the_file_was_edited(tmp_path: Path) -> None:
    file = ClientFile(APPLICATIONS["zed"], tmp_path / "settings.json")
    file.path.write_text('{\n  "theme": "dark" // mine\n}\n')
    install(file, entry_for("zed"))
    file.path.write_text(file.path.read_text().replace("dark", "light"))
    uninstall(file)
    assert file.path.read_text() == '{\n  "theme": "light" // mine\n}\n'


def test_an_entry_is_replaced_in_one_change(tmp_path: Path) -> None:
    file = place_sample("vscode", tmp_path)
    install(file, {"type": "http", "url": "http://127.0.0.1:1/mcp"})
    install(file, entry_for("vscode"))
    assert file.place.servers()["patchbay"] == entry_for("vscode")
    uninstall(file)
    assert file.path.read_bytes() == sample("vscode")


def test_each_change_has_a_backup_and_the_oldest_go(tmp_path: Path) -> None:
    file = place_sample("gemini", tmp_path)
    install(file, entry_for("gemini"))
    (backup,) = list_backups(file.path)
    assert backup.read_bytes() == sample("gemini")
    assert backup.parent == file.path.parent
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    for port in range(MAX_BACKUPS + 2):
        install(file, {"httpUrl": f"http://127.0.0.1:{port}/mcp"})
    assert len(list_backups(file.path)) == MAX_BACKUPS


def test_permissions_stay_and_a_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = place_sample("cursor", tmp_path)
    file.path.chmod(0o664)
    install(file, entry_for("cursor"))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o664
    write_change(file.place.plan_removal("patchbay"), has_secret=True)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_bytes(sample("cursor"))
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    place = ServersFile(link, APPLICATIONS["cursor"].form, "mcpServers")
    write_change(place.plan_install("patchbay", entry_for("cursor")))
    assert link.is_symlink()
    assert b"patchbay" in real.read_bytes()
    write_change(place.plan_removal("patchbay"))
    assert link.is_symlink()
    assert real.read_bytes() == sample("cursor")


def test_a_change_is_not_written_over_that_of_another_program(tmp_path: Path) -> None:
    file = place_sample("cursor", tmp_path)
    change = file.place.plan_install("patchbay", entry_for("cursor"))
    file.path.write_bytes(b"{}")
    with pytest.raises(ConfigError, match="another program changed this file"):
        write_change(change)
    assert file.path.read_bytes() == b"{}"
    assert list_backups(file.path) == []


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("cursor", b'{"mcpServers": }', "line 1, column 16"),
        ("cursor", b'{"mcpServers": []}', "expected an object with the servers by name"),
        ("cursor", b'{"mcpServers": {}, "mcpServers": {}}', "appears twice, the second time at line 1, column 20"),
        ("cursor", b"[]", "expected a JSON object as the whole file"),
        ("cursor", b'{"a": "\xff"}', "expected UTF-8 text; byte 7 is not"),
        ("codex", b"model = \n", "line 1, column 9"),
        ("codex", b'mcp_servers = { a = { command = "b" } }\n', "cannot be edited exactly"),
        ("goose", b"extensions: [", "line 1, column 14"),
        ("goose", b"- a\n", "expected a YAML mapping as the whole file"),
        ("goose", b"{a: 1}\n", "not inside braces"),
        ("goose", b"a: 1\n---\nb: 2\n", "expected"),
    ],
)
def test_a_file_that_cannot_be_edited_stays_as_it_is(name: str, data: bytes, expected: str, tmp_path: Path) -> None:
    file = place_sample(name, tmp_path)
    file.path.write_bytes(data)
    with pytest.raises(ConfigError) as problem:
        install(file, entry_for(name))
    assert str(file.path) in problem.value.message
    assert expected in problem.value.message
    assert file.path.read_bytes() == data


def test_the_diff_masks_the_values_of_secrets(tmp_path: Path) -> None:
    file = place_sample("claude-desktop", tmp_path)
    entry = {"url": URL, "headers": {"Authorization": "Bearer s3cret"}}
    diff = file.place.plan_install("patchbay", entry).diff()
    assert f'+      "url": "{URL}"' in diff
    assert '+        "Authorization": "***"' in diff
    file.path.write_text('{"mcpServers": {\n"a": {"env": {"BRAVE_API_KEY": "BSA-0123456789"}}\n}}')
    assert "BSA-0123456789" not in file.place.plan_install("patchbay", entry).diff()
