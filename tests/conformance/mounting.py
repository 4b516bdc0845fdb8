"""The official suite through a mount: what passes directly against a server passes at `/mcp/mounted-everything` too.

The server behind is another hub's `everything`, and the mount speaks to it in the one era or the other.
"""

from __future__ import annotations

from pathlib import Path

from tests.conformance.suite import BARE, Outcome, Outcomes, run, run_scenarios
from tests.interaction.programs import Hub

MOUNT = "mounted-everything"

SHOWS_NOTHING = {("modern", "server-sse-polling")}
"""The upstream's era and a scenario that then shows nothing: in 2026-07-28 no server closes the stream during a call,
so that the mount has nothing to pass on, and answers the call on its own stream, which is as good."""

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


def run_through(mounted: Hub, era: str, revision: str, folder: Path) -> Outcomes:
    """Run a leg through the mount; `bare` in the legacy era runs only the scenarios of `SKILLS`."""
    if (era, revision) == ("legacy", BARE):
        return run_scenarios(mounted.endpoint(MOUNT), SKILLS, folder / "through", folder)
    return run(mounted.endpoint(MOUNT), revision, folder / "through", folder)


def scenarios_lost(direct: Outcomes, through: Outcomes, era: str) -> dict[str, list[str]]:
    """Return each scenario that passed directly and not through the mount, with its bad lines."""
    if era == "legacy":
        direct = {key: outcome for key, outcome in direct.items() if key[1] != BARE or key[0] in SKILLS}
    assert direct
    lost = {}
    for (scenario, at), outcome in direct.items():
        found = through.get((scenario, at))
        if not _has_passed(outcome) or _has_passed(found) or not _is_comparable(era, scenario):
            continue
        if (era, scenario) in SHOWS_NOTHING and found is not None and not found.told:
            continue
        lost[scenario] = found.told if found is not None else ["did not run"]
    return lost


def _has_passed(outcome: Outcome | None) -> bool:
    """Whether a scenario ran, showed something, and nothing bad."""
    return outcome is not None and not outcome.told and outcome.counts["SUCCESS"] > 0


def _is_comparable(era: str, scenario: str) -> bool:
    """Whether a server that is spoken to in this era can do what a scenario asks for: tasks are of 2026-07-28."""
    return era == "modern" or not (scenario in NO_KEYS or scenario.startswith("tasks-"))
