"""Systems other than Linux: no protection is active, each one says so, and code runs without it."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator

import pytest

from patchbay.processes import limits
from patchbay.processes.confinement import kernel, landlock, namespaces, privacy, protections
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.protections import ALL, active_protections, describe_protections, protect_hub
from patchbay.processes.confinement.threads import Confiner


@pytest.fixture(autouse=True)
def not_linux(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every module of a kernel feature sees another system, without the C library of Linux."""
    for module in (kernel, landlock, limits, namespaces, privacy, protections):
        monkeypatch.setattr(module, "LINUX", False)
    monkeypatch.setattr(kernel, "_LIBC", None)
    landlock.version.cache_clear()
    yield
    landlock.version.cache_clear()


def test_no_protection_is_active_and_each_names_its_requirement() -> None:
    assert landlock.version() == 0
    assert active_protections(ALL) == ()
    rows = describe_protections(active_protections(ALL), landlock.version())
    assert [holds for _, holds, _ in rows] == [False] * len(rows)
    assert all(sentence.startswith("not protected here; needs Linux") for _, _, sentence in rows)


def test_a_hub_process_starts_without_hidden_memory() -> None:
    protect_hub(ALL)
    assert not privacy.is_hidden()


def test_a_command_starts_unconfined() -> None:
    assert Confiner(AllowedPaths(), ALL)(threading.get_ident) == threading.get_ident()


def test_a_worker_process_starts_without_the_limits_of_linux() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limits.name_process("patchbay test")
    limits.die_with_parent(os.getppid())
    limits.forbid_new_privileges()
    limits.limit_memory(1)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
