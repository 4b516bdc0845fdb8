"""Which legs of the official suite run always, and which only with `scripts/test --full`.

A run has every leg directly, where a hub answers. Through a mount, in processes of their own and with two workers, it
has one leg of each era: the others are one more combination of what these legs and `tests/upstreams/` show.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet

from tests.conformance.suite import HANDSHAKE_LEGS, TIMED_LEGS

ALWAYS = ("2025-11-25", "2026-07-28")
"""The newest revision of each era."""


def _leg(revision: str, *values: str, always: bool) -> ParameterSet:
    marks = () if always else (pytest.mark.full,)
    return pytest.param(*values, revision, id="-".join((*values, revision)), marks=marks)


def through_mounts(legs: Sequence[str], era: str) -> list[ParameterSet]:
    """Return the legs through mounts of both eras; without `--full`, the newest leg through a mount of `era`."""
    eras = ("legacy", "modern")
    return [_leg(leg, each, always=each == era and leg in ALWAYS) for each in eras for leg in legs]


def in_processes(legs: Sequence[str]) -> list[ParameterSet]:
    """Return the legs in processes of their own; without `--full`, the newest one with a handshake."""
    return [_leg(leg, always=leg in ALWAYS and leg in HANDSHAKE_LEGS) for leg in legs]


HANDSHAKE_MOUNTS, TIMED_MOUNTS = through_mounts(HANDSHAKE_LEGS, "legacy"), through_mounts(TIMED_LEGS, "modern")
HANDSHAKE_PROCESSES, TIMED_PROCESSES = in_processes(HANDSHAKE_LEGS), in_processes(TIMED_LEGS)
ON_NODES = [_leg(leg, always=leg in ALWAYS) for leg in (*HANDSHAKE_LEGS, *TIMED_LEGS)]
