"""The key that all hubs on one store have: given by a file or by the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.access.given_key import place_given_key
from patchbay.access.hub_key import KEY_FILE, load_key
from patchbay.access.stored_key_id import open_key
from patchbay.errors import ConfigError
from patchbay.settings import Settings, whole_environment
from patchbay.stores.memory import MemoryStore

KEY = "ab" * 32
DATABASE = "postgresql://hub@127.0.0.1/hub"


def test_the_key_of_a_file_is_kept_in_the_data_folder_of_each_node(tmp_path: Path) -> None:
    """35.12"""
    (tmp_path / "key").write_text(KEY + "\n")
    for node in ("one", "two"):
        settings = Settings(data=tmp_path / node, store=DATABASE, key_file=str(tmp_path / "key"))
        place_given_key(settings)
        place_given_key(settings)
        assert load_key(settings.data) == bytes.fromhex(KEY)
        assert (settings.data / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_the_key_of_the_environment_is_hidden_from_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """35.12"""
    monkeypatch.setenv("PATCHBAY_KEY", KEY)
    place_given_key(Settings(data=tmp_path, store=DATABASE))
    assert load_key(tmp_path) == bytes.fromhex(KEY)
    assert "PATCHBAY_KEY" not in whole_environment()


def test_a_node_without_a_key_or_with_another_one_does_not_start(tmp_path: Path) -> None:
    """35.12"""
    with pytest.raises(ConfigError, match="needs the one key of all hubs there"):
        place_given_key(Settings(data=tmp_path, store=DATABASE))
    assert not (tmp_path / KEY_FILE).exists()
    load_key(tmp_path)
    place_given_key(Settings(data=tmp_path, store=DATABASE))
    (tmp_path / "given").write_text(KEY)
    with pytest.raises(ConfigError, match="another key is in"):
        place_given_key(Settings(data=tmp_path, store=DATABASE, key_file=str(tmp_path / "given")))
    store = MemoryStore()
    open_key(store, tmp_path)
    place_given_key(Settings(data=tmp_path / "other", store=DATABASE, key_file=str(tmp_path / "given")))
    with pytest.raises(ConfigError, match="found that of another hub"):
        open_key(store, tmp_path / "other")


@pytest.mark.parametrize("text", ["", "short", "zz" * 32])
def test_an_unusable_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "given").write_text(text)
    with pytest.raises(ConfigError):
        place_given_key(Settings(data=tmp_path / "data", store=DATABASE, key_file=str(tmp_path / "given")))


@pytest.mark.parametrize("content", [bytes(range(224, 256)), b"\x89PNG\r\n", b"ab" * 31, b"", b"not a key " * 9])
def test_a_file_that_holds_no_key_is_described_with_the_command_that_makes_one(tmp_path: Path, content: bytes) -> None:
    """What was found, what was expected, and the next step."""
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        place_given_key(Settings(data=tmp_path / "data", store=DATABASE, key_file=str(file)))
    assert f"--key-file {file}" in str(caught.value) and "expected 64 hexadecimal digits" in str(caught.value)
    assert "openssl rand -hex 32" in str(caught.value) and "codec" not in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_a_hub_of_one_machine_needs_no_given_key(tmp_path: Path) -> None:
    place_given_key(Settings(data=tmp_path))
    place_given_key(Settings(data=tmp_path, store="memory"))
    assert not (tmp_path / KEY_FILE).exists()
