"""How a server runs: what a page says is what is so."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.handlers import Handlers
from patchbay.handlers.confinement.description import confinement
from patchbay.handlers.hosts.pool import Hosts
from patchbay.handlers.sandbox import available


def test_a_definition_runs_in_a_process_with_a_bound_of_memory() -> None:
    assert confinement("python", {}).sentence == "in a process of its own, memory 512 MiB, otherwise unconfined"
    assert confinement("python", {"memory": 64}, memory=128).memory == 64
    assert confinement("python", {}, memory=128).memory == 128
    assert confinement("shell", {}).sentence.startswith("in a process of its own for each call, memory 512 MiB")


def test_what_runs_inside_the_hub_is_unconfined_whatever_is_asked() -> None:
    found = confinement("python", {"isolation": "inline", "sandbox": True})
    assert (found.isolation, found.memory, found.asked, found.sandboxed) == ("inline", None, True, False)
    assert found.sentence == confinement("python", {}, "inline").sentence == "unconfined, inside the hub"


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_sandbox_is_said_to_be_there_only_where_it_works(kind: str) -> None:
    """THREATS 1.6."""
    found = confinement(kind, {"sandbox": True})
    assert found.asked and found.sandboxed == available()
    assert found.sentence.endswith("sandboxed: read-only root, private /tmp, no network") == available()
    assert ("unconfined" in found.sentence) == (not available())


def test_nothing_runs_of_a_server_without_code() -> None:
    assert confinement("static", {"sandbox": True}).isolation == "none"


CONFIGS: list[dict[str, Any]] = [{}, {"isolation": "inline"}, {"isolation": "process"}, {"environment": {"A": "b"}}]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_it_says_where_the_handler_runs(config: dict[str, Any], isolation: str) -> None:
    handlers = Handlers(Hosts(), isolation)
    handler = handlers("python", b"def f(): ...", "bafk", "f", config)
    hosted = "hosts" in getattr(handler, "__module__", "")
    assert hosted == (confinement("python", config, isolation).isolation == "process")
