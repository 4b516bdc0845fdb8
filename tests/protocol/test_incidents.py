"""A failure of the hub itself: the caller gets a number, the log the same number and the trace."""

from __future__ import annotations

import logging
import re

import pytest

from patchbay.protocol.incidents import incident

log = logging.getLogger(__name__)


def test_the_caller_hears_a_number_and_the_log_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    """THREATS 1.1."""
    try:
        raise ValueError("a secret")
    except ValueError:
        problem = incident(log, "in a test")
    found = re.fullmatch(r"internal error \(incident ([0-9a-f]{12})\)", problem.message)
    assert found is not None
    (record,) = caplog.records
    assert record.getMessage() == f"incident {found[1]} in a test"
    assert "a secret" in caplog.text and "Traceback" in caplog.text
