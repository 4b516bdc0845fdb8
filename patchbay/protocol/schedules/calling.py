"""Makes the call of a scheduled run: as the principal of the schedule, with a record like any other call."""

from __future__ import annotations

import logging
import time
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.activity.recorder import Activity
from patchbay.catalogue.catalogue import Catalogue
from patchbay.errors import PatchbayError
from patchbay.events import Detach
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.incidents import incident
from patchbay.protocol.run_tool import run_tool
from patchbay.protocol.schedules.schedules import Schedule
from patchbay.settings import Settings

log = logging.getLogger(__name__)

WAY = "schedule"
"""The entry point in the records of these calls."""


class ScheduledCalls:
    """Makes the calls of schedules. Safe to use from many threads."""

    def __init__(self, settings: Settings, catalogue: Catalogue, activity: Activity) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._activity = activity

    def call(self, schedule: Schedule, flag: CancelFlag) -> tuple[str, str]:
        """Call the tool, and return the outcome of the call and the beginning of its text. Raises no error.

        Setting `flag` cancels the call.
        """
        sender = schedule.principal
        wire = TransportInfo(schedule.server.name, sender=sender, way=WAY)
        arguments = dict(schedule.arguments)
        record = None
        try:
            with self._activity.begin("tools/call", schedule.tool.name, schedule.server, wire, arguments) as record:
                result = self._run(schedule, arguments, flag, record)
                record.end(None if flag else Result(0, result))
        except PatchbayError as problem:
            return record.outcome if record else "error", problem.message
        except Exception:
            return "error", incident(log, f"in the schedule of {'.'.join(schedule.key)}").message
        return record.outcome, flag.reason or _text_of(result)

    def _run(self, schedule: Schedule, arguments: dict[str, Any], flag: CancelFlag, record: Any) -> dict[str, Any]:
        terms: dict[str, Any] = {"principal": schedule.principal.id, "sender": schedule.principal, "cancelled": flag}
        run = run_tool(self._catalogue.hub, schedule.server, schedule.tool, arguments, None, terms)
        run.call.meta = record.calls(schedule.tool, run.call)
        for event in run.events:
            record.saw(event)
            if isinstance(event, Detach):
                run.call.deadline = time.monotonic() + self._settings.task_minutes * 60
        return run.result()


def _text_of(result: dict[str, Any]) -> str:
    return "\n".join(item["text"] for item in result.get("content", ()) if item.get("type") == "text")
