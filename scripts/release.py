"""Makes a release: `scripts/release.py VERSION`, such as 0.2.0.

Writes the version and the section of the changelog, builds the sdist, the wheel and the single file of the plugin into
dist/, checks them (`twine check`, the tests of the wheel), commits and tags. Publishes nothing: the last lines say how.
Nothing is written when the work tree has changes, the version is not one, or the tag exists already.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "patchbay" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"
UNRELEASED = re.compile(r"^## Unreleased.*$", re.MULTILINE)
PYTHON = sys.executable


class ReleaseError(Exception):
    """Why no release can be made; nothing was written."""


def with_version(text: str, version: str) -> str:
    """The text of `patchbay/__init__.py` with another version. Raises ReleaseError when it names none."""
    changed, count = re.subn(r'^__version__ = "[^"]*"$', f'__version__ = "{version}"', text, flags=re.MULTILINE)
    if count != 1:
        raise ReleaseError(f'{VERSION_FILE}: expected one line __version__ = "...", found {count}')
    return changed


def with_section(changelog: str, version: str, day: datetime.date) -> str:
    """The changelog with its unreleased entries under this version, and an empty section for what comes next.

    Raises ReleaseError when there is no unreleased section or it has no entry.
    """
    found = UNRELEASED.search(changelog)
    if found is None:
        raise ReleaseError(f'{CHANGELOG}: expected a section that begins with "## Unreleased"')
    entries = re.split(r"^## ", changelog[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^[-*] ", entries, re.MULTILINE):
        raise ReleaseError(f"{CHANGELOG}: the unreleased section has no entry; write what changed for users")
    title = f"## Unreleased\n\n## {version} - {day.isoformat()}"
    return changelog[: found.start()] + title + changelog[found.end() :]


def check_can_release(version: str) -> None:
    """Raises ReleaseError when the version, the work tree or the tags do not allow a release."""
    try:
        if str(Version(version)) != version:
            raise ReleaseError(f"{version}: write it as {Version(version)}")
    except InvalidVersion as problem:
        raise ReleaseError(f"{version}: expected a version such as 0.2.0 (PEP 440)") from problem
    if output("git", "status", "--porcelain"):
        raise ReleaseError("the work tree has changes; commit or remove them first")
    if output("git", "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists already")


def output(*command: str) -> str:
    """What a command prints. Raises CalledProcessError when it fails."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def run(*command: str) -> None:
    """Run a command and show what it prints. Raises CalledProcessError when it fails."""
    subprocess.run(command, cwd=ROOT, check=True)


def build() -> None:
    """Build everything into an empty dist/, and check it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(str(Path(PYTHON).with_name("uv")), "build", "--no-build-isolation", "--python", PYTHON, "--out-dir", str(DIST))
    run(PYTHON, "scripts/single_file.py", str(DIST / "mcp_.py"))
    run(PYTHON, "-m", "twine", "check", "--strict", *(str(path) for path in DIST.glob("patchbay_hub-*")))
    run(PYTHON, "-m", "pytest", "-q", "tests/packaging")


def main(version: str) -> None:
    """Make the release; on a failed check the two changed files are put back."""
    check_can_release(version)
    before = {path: path.read_text("utf-8") for path in (VERSION_FILE, CHANGELOG)}
    after = {
        VERSION_FILE: with_version(before[VERSION_FILE], version),
        CHANGELOG: with_section(before[CHANGELOG], version, datetime.datetime.now(datetime.UTC).date()),
    }
    try:
        for path, text in after.items():
            path.write_text(text, "utf-8")
        build()
    except BaseException:
        for path, text in before.items():
            path.write_text(text, "utf-8")
        raise
    run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"Patchbay {version}")
    sys.stdout.write(f"dist/ holds the release; publish it with:\n  git push origin HEAD v{version}\n")
    sys.stdout.write("  python -m twine upload dist/patchbay_hub-*\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", metavar="VERSION")
    try:
        main(parser.parse_args().version)
    except ReleaseError as problem:
        sys.exit(f"scripts/release.py: {problem}")
