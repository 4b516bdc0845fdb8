"""The memory of the web server's threads is settled before the server is loaded, which reads it only then."""

from __future__ import annotations

import subprocess
import sys

from tests.interaction.programs import ROOT

NAME = "_RJEM_MALLOC_CONF"

PROGRAM = f"""
import builtins, os
real = builtins.__import__
seen = []
def noted(name, *given):
    if name.partition(".")[0] == "granian":
        seen.append(os.environ.get({NAME!r}))
    return real(name, *given)
builtins.__import__ = noted
import patchbay.serving.supervisor
print(seen[0])
"""


def at_first_sight(**environment: str) -> str:
    """What the variable says when anything of the web server is imported first."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_it_is_settled_before_the_server_is_loaded() -> None:
    assert at_first_sight() == "tcache:false"


def test_whoever_starts_the_hub_may_decide_otherwise() -> None:
    assert at_first_sight(**{NAME: "narenas:2"}) == "narenas:2"
