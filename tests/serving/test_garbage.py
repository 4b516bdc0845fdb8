"""The collection of cyclic garbage while a worker serves."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from patchbay.serving.garbage import THRESHOLDS, leave_out_what_lasts


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_objects_made_at_start_are_left_out_of_later_collections() -> None:
    lasting: list[object] = [[]]
    leave_out_what_lasts()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    assert not any(found is lasting for found in gc.get_objects())
