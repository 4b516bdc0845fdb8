"""Make the file of a new server in the watched folder: a small definition that works, or a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchbay.catalogue.operating.removal import find_files
from patchbay.catalogue.servers.rows import name_problem
from patchbay.errors import ConfigError

PYTHON_SAMPLE = '''"""Describe the server in one sentence."""


def greet(name: str, loudly: bool = False) -> str:
    """Greet a person.

    Args:
        name: The person to greet.
        loudly: Write the greeting in capital letters.
    """
    greeting = f"Hello {name}"
    return greeting.upper() if loudly else greeting
'''
"""A definition in Python with one tool; each public function is a tool."""

SHELL_SAMPLE = """#!/bin/sh
# Count the lines, words and bytes of a text: `input` is the text, `args` are options such as -l.
#
# The hub runs this file with `args` as its arguments and `input` as its standard input. What it prints is the result.
wc "$@"
"""
"""A definition as a shell script; the comment at its beginning describes the tool."""


def write_definition(folder: Path, name: str, ending: str, text: str) -> Path:
    """Write the definition of a new server and return its path. Raises ConfigError; then nothing is written."""
    check_new(folder, name)
    file = folder / f"{name}{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
        if ending == ".sh":
            file.chmod(file.stat().st_mode | 0o100)
    except OSError as problem:
        raise ConfigError(str(file), "", f"expected a file that can be written ({problem.strerror})") from problem
    return file


def write_configuration(folder: Path, name: str, fields: Mapping[str, Any]) -> Path:
    """Write the configuration of a new server without code and return its path. Raises ConfigError."""
    return write_definition(folder, name, ".json", json.dumps(fields, indent=2, ensure_ascii=False) + "\n")


def check_new(folder: Path, name: str) -> None:
    """Raise ConfigError when a new server cannot have this name, or the folder has a file of this server."""
    problem = name_problem(name)
    if problem:
        raise ConfigError("NAME", "", problem)
    taken = find_files(folder, name)
    if taken:
        raise ConfigError(
            str(taken[0]),
            "",
            f"expected no server {name} yet: choose another name, or run `patchbay remove {name}` first",
        )
