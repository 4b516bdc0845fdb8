"""The list of the runs of scripts that waited for a person: what it has, and who sees which run."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS
from tests.access.team import new_key, set_grants, team_hub
from tests.scripting.closing import FILES, PLAIN, close_issues, closing_hub, runs
from tests.scripting.hubs import failure
from tests.web.browsing import read, read_json


def test_the_list_has_each_run_that_waits_with_its_state_and_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 55, item 3."""
    hub = closing_hub(tmp_path).log_in()
    try:
        assert "No script waited for a person in the last day." in read(hub, "/activity/runs")
        assert "The script waits" in failure(close_issues(hub, tmp_path))
        (run,) = read_json(hub.client.get("/activity/runs.json"))["runs"]
        assert (run["state"], run["server"], run["tool"]) == ("suspended", "issues", "run_script")
        assert run["ended"] is None and run["until"] > run["began"]
        page = read(hub, "/activity/runs")
        assert f'<a href="/activity/runs/{run["id"]}">' in page and "waits for a person" in page
        later = runs(hub).approvals.now() + APPROVAL_SECONDS + 1
        monkeypatch.setattr(runs(hub).approvals, "now", lambda: later)
        (run,) = read_json(hub.client.get("/activity/runs.json"))["runs"]
        assert (run["state"], run["until"]) == ("expired", None)
    finally:
        hub.close()


def test_a_caller_sees_only_runs_of_their_own(tmp_path: Path) -> None:
    hub = team_hub(tmp_path, FILES)
    hub.catalogue.hub.gate.wait_seconds = 0.0
    try:
        set_grants(hub, {"grants": [{"to": ["key:ann", "key:ben"], "may": ["call", "see"], "on": ["issues"]}]})
        ann, ben = new_key(hub, "ann"), new_key(hub, "ben")
        close_issues(hub, tmp_path, code=PLAIN, headers=ann)
        seen = {
            name: hub.client.get("/activity/runs.json", headers=who) for name, who in {"ann": ann, "ben": ben}.items()
        }
        assert [one["caller"] for one in seen["ann"].get_json()["runs"]] == ["key:ann"]
        assert seen["ben"].get_json()["runs"] == []
        assert "None of your scripts waited" in hub.client.get("/activity/runs", headers=ben).text
        assert hub.client.get("/activity/runs.json").status_code == 401
    finally:
        hub.close()
