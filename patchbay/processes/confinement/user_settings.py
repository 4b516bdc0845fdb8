"""Settings of the user's npm and git: a program that has a home of its own gets those without a secret.

Both files may hold passwords and tokens, also inside a URL: `registry=https://me:secret@host/`, or the section
`[url "https://TOKEN@host/"]` of git. A file with one stays hidden as a whole.

Sources: https://docs.npmjs.com/cli/configuring-npm/npmrc; git-config(1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from patchbay.processes.confinement.private_places import find_home

IsSecret = Callable[[str, str], bool]
"""Whether a value is a secret, by its name and the value."""

FILES = (("GIT_CONFIG_GLOBAL", ".gitconfig"), ("npm_config_userconfig", ".npmrc"))
"""The variable that leads a program to such a file, and the file in the home folder."""

_SECRET_SETTING = re.compile(r"(?i)(_auth|pass|pwd|token|secret|certfile|keyfile|^key)")
_SIGNED_IN_URL = re.compile(r"(?i)https?://[^/\s\"']*@")
_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*://[^\s\"'\]]+")
_COMMENT = " \t#;"


def find_user_settings(environ: Mapping[str, str], is_secret: IsSecret) -> dict[str, str]:
    """Return the files of settings without a secret, by the variables that lead a program to them."""
    home = find_home(environ)
    return {name: str(home / file) for name, file in FILES if _is_plain(home / file, is_secret)}


def _is_plain(file: Path, is_secret: IsSecret) -> bool:
    """Whether a file of settings holds no secret; a file that cannot be read may hold one."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError):
        return False
    return not any(_has_secret(line.strip(_COMMENT), is_secret) for line in lines)


def _has_secret(line: str, is_secret: IsSecret) -> bool:
    """Whether a line of settings has a secret; a setting that is commented out counts too."""
    if _SIGNED_IN_URL.search(line):
        return True
    name, equals, value = (part.strip(" \t\"'") for part in line.partition("="))
    return bool(equals and _SECRET_SETTING.search(name)) or any(is_secret(*pair) for pair in _pairs(line, name, value))


def _pairs(line: str, name: str, value: str) -> Iterator[tuple[str, str]]:
    yield "", line
    if name.lower() != "signingkey":  # the id of a public key
        yield name, value
    yield from (("", url) for url in _URL.findall(line))
