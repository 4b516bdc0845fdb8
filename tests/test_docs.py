"""The documents: generated ones are current, everything is documented, links resolve, no machine shows through."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from patchbay import exit_codes
from patchbay.cli.commands.patchbay import HUB
from patchbay.cli.options import SETTING_FIELDS, flag_name, variable_name
from scripts import settings_page
from tests.checkout import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)\s]*)?\)")
MACHINE_PATH = re.compile(r"(?<![\w.:/~-])/(?!home/me/)(?:home|root|Users|tmp|work|opt)/\w[\w./-]*")
"""An absolute path of a real machine; `/home/me/` is an example."""

TEXT_FILES = (
    "*.md",
    "*.py",
    "*.toml",
    "*.txt",
    "docs/**/*",
    "patchbay/**/*",
    "scripts/*",
    "tests/**/*.py",
    "servers/*",
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def named(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


def test_the_settings_page_is_current() -> None:
    assert text_of("docs/settings.md") == settings_page.page(), "run python scripts/settings_page.py"


@pytest.mark.parametrize("name", SETTING_FIELDS)
def test_every_setting_is_documented(name: str) -> None:
    page = text_of("docs/settings.md")
    assert f"`{flag_name(name)}`" in page
    assert f"`{variable_name(name)}`" in page


@pytest.mark.parametrize("name", sorted(HUB))
def test_every_command_is_documented(name: str) -> None:
    assert f"`patchbay {name}`" in text_of("docs/operation.md")


def test_every_exit_code_is_documented_and_in_the_help() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text_of("docs/exit-codes.md"), re.MULTILINE)} == codes
    assert {int(code) for code in re.findall(r"^  (\d+)  ", exit_codes.HELP, re.MULTILINE)} == codes


def test_every_field_of_a_configuration_is_documented() -> None:
    fields = orjson.loads((ROOT / "patchbay" / "mcps.schema.json").read_bytes())["properties"]
    page = text_of("docs/definitions.md") + text_of("docs/mounting.md")
    assert [
        field for field in fields if field != "$schema" and f"`{field}`" not in page and f'"{field}"' not in page
    ] == []


def test_every_script_is_documented() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    page = text_of("CONTRIBUTING.md")
    assert [path.name for path in scripts if f"scripts/{path.name}" not in page] == []


@pytest.mark.parametrize("name", named(DOCUMENTS))
def test_relative_links_resolve(name: str) -> None:
    document = ROOT / name
    missing = [link for link in LINK.findall(document.read_text("utf-8")) if not (document.parent / link).exists()]
    assert missing == []


def test_the_site_has_every_document_in_its_navigation() -> None:
    navigation = set(re.findall(r"^ +- .*: (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE))
    names = {name.removeprefix("docs/") for name in named(DOCUMENTS)} - {"README.md"}
    assert navigation == names


def test_the_first_page_of_the_documents_links_every_one() -> None:
    linked = {(ROOT / "docs" / link).resolve() for link in LINK.findall(text_of("docs/index.md"))}
    pages = {path for path in DOCUMENTS if path.parent.name == "docs"} - {ROOT / "docs" / "index.md"}
    assert named(sorted(pages - linked)) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    paths = sorted({path for pattern in TEXT_FILES for path in ROOT.glob(pattern) if path.is_file()})
    found = [
        f"{path.relative_to(ROOT)}: {hit}"
        for path in paths
        if path.suffix in {".md", ".py", ".toml", ".txt", ".json", ".sh", ""}
        for hit in MACHINE_PATH.findall(path.read_text("utf-8"))
    ]
    assert found == []


def test_a_path_of_one_machine_would_be_found() -> None:
    assert MACHINE_PATH.findall("see " + "/".join(["", "home", "ann", "notes"])) != []
    assert MACHINE_PATH.findall("https://example.com/home/ann, cid://x/work/y, tests/tmp/x") == []
