"""The zoo of tests/protocol, for tests of the ways in."""

from __future__ import annotations

from tests.protocol.conftest import zoo

__all__ = ["zoo"]
