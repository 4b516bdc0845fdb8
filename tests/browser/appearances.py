"""The colour schemes and sizes in which pages are looked at.

A run has each scheme and each size once; `scripts/test --full` has the other two combinations too.
"""

from __future__ import annotations

import pytest

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}
"""The sizes of windows, in CSS pixels."""

APPEARANCES = [
    pytest.param("light", "desk", id="light-desk"),
    pytest.param("dark", "phone", id="dark-phone"),
    pytest.param("dark", "desk", id="dark-desk", marks=pytest.mark.full),
    pytest.param("light", "phone", id="light-phone", marks=pytest.mark.full),
]
"""Values of the parameters `scheme` and `size`."""
