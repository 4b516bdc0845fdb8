"""The receiver of webhooks, for these tests."""

from __future__ import annotations

from tests.protocol.webhooks.receiver import receiver

__all__ = ["receiver"]
