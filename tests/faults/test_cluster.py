"""Three hubs on one PostgreSQL under load while something fails; `python -m benchmarks.faults` has all faults.

Here are those that no test of a part has, and briefly: with shorter outages, and less load before and after them.
"""

from __future__ import annotations

import pytest

from benchmarks.faults.cluster import NO_FAKETIME, find_faketime
from benchmarks.faults.faults import BRIEF, run

pytestmark = pytest.mark.process


def check(name: str) -> None:
    """Cause a fault; nothing is wrong, lost, doubled or without an end."""
    figures = run(name, BRIEF)
    assert figures.faults == [] and figures.endless == 0, figures
    assert figures.acknowledged > BRIEF.least, figures


def test_writers_at_all_nodes_change_one_name_one_document_of_grants_and_one_room() -> None:
    """35.7"""
    check("race")


def test_nodes_with_clocks_an_hour_ahead_and_an_hour_behind_work_as_one() -> None:
    """35.7: times are those of the database."""
    if find_faketime() is None:
        pytest.skip(NO_FAKETIME)
    check("clocks")


def test_a_node_that_is_cut_off_from_the_database_loses_and_doubles_nothing() -> None:
    """35.7: connections stay open, and nothing passes."""
    check("network")


def test_every_connection_that_listens_is_cut_and_every_message_arrives() -> None:
    """35.9: the others lead to the database."""
    check("listening")
