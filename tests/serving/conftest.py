"""The zoo of servers, for these tests."""

from __future__ import annotations

from tests.sample_servers import zoo

__all__ = ["zoo"]
