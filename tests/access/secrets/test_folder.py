"""Secrets as files: the forms of systemd, Docker and Kubernetes, and files that attack the hub. Issue 56, 1."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from patchbay.access.secrets.folder import SecretsFolder
from patchbay.access.secrets.names import MAX_VALUE_BYTES, SecretRefused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "secrets"
    found.mkdir()
    return found


def find(folder: Path, name: str) -> str | None:
    return SecretsFolder(folder).find(name, "server")


def publish(folder: Path, number: int, value: str) -> None:
    """Replace the files of a folder as Kubernetes does: a new folder, and a link that is moved to it."""
    (folder / f"..{number}").mkdir()
    (folder / f"..{number}" / "TOKEN").write_text(value)
    (folder / "..next").symlink_to(f"..{number}")
    (folder / "..next").rename(folder / "..data")
    shutil.rmtree(folder / f"..{number - 1}", ignore_errors=True)
    if not (folder / "TOKEN").is_symlink():
        (folder / "TOKEN").symlink_to("..data/TOKEN")


def test_a_file_is_a_secret_without_its_last_line_break(folder: Path) -> None:
    (folder / "TOKEN").write_text("value\n")
    (folder / "TEXT").write_bytes(b"two\nlines\r\n")
    assert find(folder, "TOKEN") == "value"
    assert find(folder, "TEXT") == "two\nlines"
    assert find(folder, "ABSENT") is None
    assert find(folder.parent / "no folder", "TOKEN") is None


def test_a_folder_that_kubernetes_replaces_always_has_one_of_its_values(folder: Path) -> None:
    publish(folder, 0, "value 0")
    secrets, found, is_over = SecretsFolder(folder), set(), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            found.add(secrets.find("TOKEN", "server"))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 200):
        publish(folder, number, f"value {number}")
    is_over.set()
    reader.join()
    assert found
    assert found <= {f"value {number}" for number in range(200)}
    assert secrets.find("TOKEN", "server") == "value 199"


@pytest.mark.parametrize("name", ["../outside", "a/b", "/etc/passwd", ".", "..", "", "PATH", "a\0b"])
def test_a_name_that_leads_elsewhere_is_not_looked_up(folder: Path, name: str) -> None:
    (folder.parent / "outside").write_text("not for you")
    (folder / "PATH").write_text("/attack")
    assert find(folder, name) is None


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder.parent / "outside").write_text("not for you")
    (folder / "TOKEN").symlink_to("../outside")
    (folder / "LOOP").symlink_to("LOOP")
    (folder / "GONE").symlink_to("nothing")
    for name, reason in (("TOKEN", "outside of the folder"), ("LOOP", "cannot be used"), ("GONE", "does not exist")):
        with pytest.raises(SecretRefused, match=reason) as refused:
            find(folder, name)
        assert "not for you" not in refused.value.message


def test_a_fifo_a_folder_and_a_device_are_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "FIFO")
    os.mkfifo(folder / "WRITTEN")
    (folder / "FOLDER").mkdir()
    writer = os.open(folder / "WRITTEN", os.O_RDWR)
    try:
        os.write(writer, b"of another program")
        for name in ("FIFO", "WRITTEN", "FOLDER"):
            with pytest.raises(SecretRefused, match="cannot be used"):
                find(folder, name)
        assert os.read(writer, 100) == b"of another program", "nothing was taken from it"
    finally:
        os.close(writer)


def test_a_huge_file_and_bytes_that_are_no_text_are_refused_without_being_read_whole(folder: Path) -> None:
    with (folder / "HUGE").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "LARGE").write_text("x" * (MAX_VALUE_BYTES + 1))
    (folder / "BYTES").write_bytes(b"\xff\xfe secret")
    (folder / "EMPTY").write_text("\n")
    for name in ("HUGE", "LARGE", "BYTES", "EMPTY"):
        with pytest.raises(SecretRefused) as refused:
            find(folder, name)
        assert "secret\n" not in refused.value.message
    (folder / "FULL").write_text("x" * MAX_VALUE_BYTES + "\n")
    assert find(folder, "FULL") == "x" * MAX_VALUE_BYTES
