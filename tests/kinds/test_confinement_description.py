"""The described confinement of a server is its real one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchbay.kinds.confinement_description import (
    INSIDE,
    NOTHING,
    REFUSED,
    SANDBOXED,
    UNSANDBOXED,
    confinement,
    protections,
)
from patchbay.kinds.python.workers.handler import hosted_handler
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.processes.confinement.protections import ALL, LANDLOCK, NAMESPACES, PRIVACY
from patchbay.processes.sandbox import IF_AVAILABLE, is_available


def test_a_definition_runs_in_a_process_with_a_bound_of_memory() -> None:
    assert confinement("python", {}).sentence == "in a process of its own, memory 512 MiB"
    assert confinement("python", {"memory": 64}, memory=128).memory == 64
    assert confinement("python", {}, memory=128).memory == 128
    assert confinement("shell", {}).sentence.startswith("in a process of its own for each call, memory 512 MiB")


def test_code_inside_the_hub_is_unconfined_whatever_its_configuration() -> None:
    found = confinement("python", {"isolation": "inline", "sandbox": "if-available"})
    assert (found.isolation, found.memory, found.asked, found.sandboxed) == ("inline", None, True, False)
    assert found.sentence == confinement("python", {}, "inline").sentence == "unconfined, inside the hub"
    refused = confinement("python", {"isolation": "inline", "sandbox": True})
    assert (refused.isolation, refused.sentence) == ("none", INSIDE)


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_sandbox_is_described_only_where_it_works(kind: str) -> None:
    needed, wanted = confinement(kind, {"sandbox": True}), confinement(kind, {"sandbox": IF_AVAILABLE})
    assert needed.asked and wanted.asked and needed.sandboxed == wanted.sandboxed == is_available()
    assert wanted.sentence.endswith(SANDBOXED if is_available() else UNSANDBOXED)
    assert needed == (wanted if is_available() else replace(NOTHING, asked=True, sentence=REFUSED))


def test_nothing_runs_of_a_server_without_code() -> None:
    assert confinement("static", {"sandbox": True}).isolation == "none"


CONFIGS: list[dict[str, Any]] = [{}, {"isolation": "inline"}, {"isolation": "process"}, {"environment": {"A": "b"}}]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_the_description_agrees_with_the_handler(config: dict[str, Any], isolation: str) -> None:
    handlers = Handlers(WorkerPool(), isolation)
    handler = handlers("python", b"def f(): ...", "bafk", "f", config)
    hosted = handler.__module__ == hosted_handler.__module__
    assert hosted == (confinement("python", config, isolation).isolation == "process")


def held(kind: str, names: tuple[str, ...], version: int) -> set[str]:
    rows = protections(kind, confinement(kind, {}), names, version)
    return {row["what"] for row in rows if row["holds"]}


def test_each_protection_is_described_as_active_only_with_its_feature() -> None:
    everything = {"files", "ports", "signals", "processes", "shared memory", "memory"}
    assert held("python", ALL, 6) == everything
    assert held("python", (LANDLOCK, PRIVACY), 6) == everything - {"processes", "shared memory"}
    assert held("python", (LANDLOCK,), 5) == {"files", "ports"}
    assert held("python", (LANDLOCK,), 3) == {"files"}
    assert held("python", (NAMESPACES,), 0) == {"signals", "processes", "shared memory"}
    assert held("shell", ALL, 6) == everything - {"processes", "shared memory"}
    assert held("python", (), 0) == set()
    assert protections("static", confinement("static", {}), ALL, 6) == []


def test_an_inactive_protection_names_its_requirement() -> None:
    rows = protections("python", confinement("python", {}), (), 0)
    assert all(row["sentence"].startswith("not protected here; needs Linux with") for row in rows)
