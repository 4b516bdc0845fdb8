"""Compiled templates that are kept in files: they are used again while nothing that they depend on has changed."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest
from jinja2 import DictLoader, Environment

from patchbay.web.rendering.compiled_templates import keep_compiled
from patchbay.web.rendering.templates import page_environment


@pytest.fixture
def render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, bool]]:
    """Render a source in a new environment; return the text, and whether the source was compiled for that."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def run(source: str = "{{ 1 + 1 }}", settings: str = "") -> tuple[str, bool]:
        compiled: list[str] = []

        class Watched(Environment):
            def _parse(self, text: str, name: str | None, filename: str | None) -> object:  # type: ignore[override]
                compiled.append(text)
                return super()._parse(text, name, filename)

        environment = keep_compiled(Watched(loader=DictLoader({"page": source})), settings, tmp_path / "kept")
        return environment.get_template("page").render(), bool(compiled)

    return run


def test_a_template_is_compiled_once_for_all_processes(render: Callable[..., tuple[str, bool]]) -> None:
    assert render() == ("2", True)
    assert render() == ("2", False)


def test_a_changed_template_is_compiled_again(render: Callable[..., tuple[str, bool]]) -> None:
    render()
    assert render("{{ 1 + 2 }}") == ("3", True)


def test_a_template_is_compiled_again_with_another_version_of_jinja(
    render: Callable[..., tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    render()
    monkeypatch.setattr(jinja2, "__version__", "another one")
    assert render() == ("2", True)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert render() == ("2", True)


def test_other_settings_have_other_files(render: Callable[..., tuple[str, bool]]) -> None:
    render()
    assert render(settings="/prefix") == ("2", True)
    assert render() == ("2", False)


@pytest.mark.parametrize("size", [0, 5, 20, 90, 150])
def test_a_damaged_file_is_replaced(render: Callable[..., tuple[str, bool]], tmp_path: Path, size: int) -> None:
    render()
    [file] = (tmp_path / "kept").iterdir()
    file.write_bytes(file.read_bytes()[:size])
    assert render() == ("2", True)
    assert render() == ("2", False)


def test_a_page_is_served_where_no_file_can_be_written(render: Callable[..., tuple[str, bool]], tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file and not a folder")
    assert render() == ("2", True)
    assert render() == ("2", True)


def test_a_full_disk_leaves_no_part_of_a_file(render: Callable[..., tuple[str, bool]], tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        assert render() == ("2", True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "kept").iterdir()) == []
    assert render() == ("2", True)
    assert render() == ("2", False)


def test_nothing_is_written_where_python_writes_no_compiled_modules(
    render: Callable[..., tuple[str, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render() == ("2", True)
    assert not (tmp_path / "kept").exists()


def test_pages_with_different_path_prefixes_have_different_files() -> None:
    keys = set()
    for prefix in ("", "/hub"):
        cache = page_environment(prefix).bytecode_cache
        assert cache is not None
        keys.add(cache.get_cache_key("base.html"))
    assert len(keys) == 2
