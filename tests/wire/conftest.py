"""The zoo of servers, for these tests."""

from __future__ import annotations

from tests.zoo import zoo

__all__ = ["zoo"]
