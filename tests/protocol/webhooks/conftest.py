"""The receiver of webhooks, for these tests."""

from __future__ import annotations

from tests.protocol.events.receiver import receiver

__all__ = ["receiver"]
