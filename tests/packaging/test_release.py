"""The release script: what it writes, and when it refuses."""

from __future__ import annotations

import datetime

import pytest

from patchbay import __version__
from scripts.release import CHANGELOG, VERSION_FILE, ReleaseError, check_can_release, with_section, with_version

DAY = datetime.date(2026, 11, 22)


def test_the_version_stands_in_one_place() -> None:
    text = VERSION_FILE.read_text("utf-8")
    assert with_version(text, __version__) == text
    assert '__version__ = "9.8.7"' in with_version(text, "9.8.7")


def test_unreleased_entries_move_under_the_version() -> None:
    text = "# Changelog\n\n## Unreleased\n\n### Added\n\n- One thing.\n\n## 0.1.0 - 2026-01-01\n\n- Old.\n"
    changed = with_section(text, "0.2.0", DAY)
    assert "## Unreleased\n\n## 0.2.0 - 2026-11-22\n\n### Added\n\n- One thing.\n\n## 0.1.0" in changed


def test_the_changelog_of_the_project_can_be_released() -> None:
    assert "## 9.8.7 - 2026-11-22" in with_section(CHANGELOG.read_text("utf-8"), "9.8.7", DAY)


@pytest.mark.parametrize("text", ["# Changelog\n", "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- Old.\n"])
def test_a_release_without_entries_is_refused(text: str) -> None:
    with pytest.raises(ReleaseError, match="nreleased"):
        with_section(text, "0.2.0", DAY)


@pytest.mark.parametrize("version", ["", "next", "1.0 beta", "01.0.0"])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match=r"version|write it as"):
        check_can_release(version)
