"""The official suite through a mount: what passes directly against a server passes at `/mcp/mounted-everything` too.

The server behind is another hub's `everything`, which is spoken to in the one era or the other; the suite is run
against it directly, and against its mount, one after the other. Issue 5 part 7; PEERS section 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.suite import BARE, LEGS, Outcome, Outcomes, faults, run, run_scenarios
from tests.interaction.programs import Hub, running_hub

MOUNT = "mounted-everything"
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")

SHOWS_NOTHING = {("modern", "server-sse-polling")}
"""The upstream's era and a scenario that then has nothing to look at: in 2026-07-28 no server hangs up in mid-call, so
that nothing is heard of it behind the mount, and the call is answered on its own stream, which is as good."""

NO_KEYS = frozenset(
    {
        "input-required-result-basic-elicitation",
        "input-required-result-ignore-extra-params",
        "input-required-result-multiple-input-requests",
    }
)
"""Scenarios of 2026-07-28 that want the author's keys of questions, and several questions in one answer. A question
that an upstream asks with a handshake's revision has no key, and comes alone: no client of it could see more."""


SKILLS = frozenset({"sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"})
"""Scenarios of the run without a revision that no other run has and that an older upstream can pass. The others are
those of tasks: they would wait a minute for tasks that an older upstream does not have."""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub behind."""
    with running_hub(tmp_path_factory.mktemp("upstream") / "hub") as hub:
        yield hub


@pytest.fixture(scope="module", params=["legacy", "modern"])
def mounted(upstream: Hub, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub in front; it speaks to the one behind in one era."""
    folder = tmp_path_factory.mktemp(request.param)
    mount = {"kind": "upstream", "address": upstream.endpoint("everything"), "era": request.param}
    (folder / f"{MOUNT}.json").write_text(json.dumps(mount), "utf-8")
    with running_hub(folder / "hub", [folder / f"{MOUNT}.json"]) as hub:
        yield hub


def passed(outcome: Outcome | None) -> bool:
    """Whether a scenario ran, showed something, and nothing bad."""
    return outcome is not None and not outcome.told and outcome.counts["SUCCESS"] > 0


@pytest.fixture(scope="module")
def direct(upstream: Hub, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcomes]:
    """What a leg gives without a mount; each is run once."""

    @cache
    def leg(revision: str) -> Outcomes:
        folder = tmp_path_factory.mktemp("direct")
        return run(upstream.endpoint("everything"), revision, folder / "suite", folder)

    return leg


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize("revision", [*LEGACY, "2026-07-28", BARE])
def test_what_passes_directly_passes_through_the_mount(
    direct: Callable[[str], Outcomes], mounted: Hub, tmp_path: Path, request: pytest.FixtureRequest, revision: str
) -> None:
    era = request.node.callspec.params["mounted"]
    outcomes = direct(revision)
    assert faults(outcomes, revision, LEGS[revision]) == []
    if (era, revision) == ("legacy", BARE):
        outcomes = {(scenario, at): outcome for (scenario, at), outcome in outcomes.items() if scenario in SKILLS}
        through = run_scenarios(mounted.endpoint(MOUNT), SKILLS, tmp_path / "through", tmp_path)
    else:
        through = run(mounted.endpoint(MOUNT), revision, tmp_path / "through", tmp_path)
    assert outcomes
    lost = {}
    for (scenario, at), outcome in outcomes.items():
        found = through.get((scenario, at))
        if not passed(outcome) or passed(found) or not comparable(era, scenario):
            continue
        if (era, scenario) in SHOWS_NOTHING and found is not None and not found.told:
            continue
        lost[scenario] = found.told if found is not None else ["did not run"]
    assert lost == {}


def comparable(era: str, scenario: str) -> bool:
    """Whether a server that is spoken to in this era can do what a scenario asks for: tasks are of 2026-07-28."""
    return era == "modern" or not (scenario in NO_KEYS or scenario.startswith("tasks-"))
