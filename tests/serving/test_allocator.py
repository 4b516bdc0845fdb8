"""The web server's allocator reads its variable when it is loaded, so the variable is set before the first import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkout import ROOT

NAME = "_RJEM_MALLOC_CONF"

PROGRAM = """
import builtins, os, sys
real = builtins.__import__
seen = []
def record(name, *rest):
    if name.partition(".")[0] == "granian":
        seen.append(os.environ.get(sys.argv[1]))
    return real(name, *rest)
builtins.__import__ = record
real(sys.argv[2])
print(seen[0])
"""

MODULES = ("patchbay.serving.supervisor", "patchbay.serving.respawning", "patchbay.cli.commands.serve")


def value_at_first_import(module: str, **environment: str) -> str:
    """The value of the variable when `module` first imports a part of the web server."""
    command = [sys.executable, "-c", PROGRAM, NAME, module]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.mark.parametrize("module", MODULES)
def test_the_variable_is_set_before_the_server_is_imported(module: str) -> None:
    assert value_at_first_import(module) == "tcache:false,oversize_threshold:262144"


def test_the_user_of_the_hub_can_set_another_value() -> None:
    assert value_at_first_import(MODULES[0], **{NAME: "narenas:2"}) == "narenas:2"
