"""The contents of links in running calls are bounded for the process and for each caller."""

from __future__ import annotations

import pytest

from patchbay.errors import OverQuota
from patchbay.protocol.content_budget import CallContents, ContentBudget


def test_a_caller_has_at_most_half_and_all_callers_have_the_whole() -> None:
    budget = ContentBudget(100)
    budget.take("ann", 50)
    with pytest.raises(OverQuota, match="try again when some have ended"):
        budget.take("ann", 1)
    budget.take("ben", 40)
    with pytest.raises(OverQuota):
        budget.take("eve", 11)
    budget.give_back("ann", 50)
    budget.take("eve", 11)
    assert budget.held == 51


def test_a_call_alone_may_have_contents_above_the_limit() -> None:
    budget = ContentBudget(100)
    budget.take("ann", 300)
    with pytest.raises(OverQuota):
        budget.take("ben", 1)


def test_contents_count_as_long_as_their_call_exists() -> None:
    class Run:
        """Stands for the run of a tool."""

    budget, run = ContentBudget(100), Run()
    contents = CallContents(budget, "ann")
    contents.add(20)
    contents.add(10)
    contents.last(run)
    assert budget.held == 30
    del run
    assert budget.held == 0


def test_contents_of_a_call_that_is_refused_do_not_count() -> None:
    budget = ContentBudget(100)
    contents = CallContents(budget, "ann")
    contents.add(30)
    with pytest.raises(OverQuota):
        contents.add(30)
    contents.release()
    assert budget.held == 0
