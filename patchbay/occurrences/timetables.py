"""Timetables: the times of a cron expression in a time zone.

An expression has five fields: minute, hour, day of month, month, day of week; with six fields, the first one is the
second. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are short forms. Around a change to or from daylight
saving time, the times are those of Debian's cron: an hourly time is not repeated or left out, and a time of day that
does not exist on a day is made up at once.
Source: crontab(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError

SHORT_FORMS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Names of common expressions."""

MAX_EXPRESSION_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Timetable:
    """The times of one expression. All times are Unix times in seconds."""

    expression: str
    zone: str = "UTC"

    def check(self) -> str | None:
        """Return what is wrong with the expression or the zone, as the end of a sentence; None if both are valid."""
        try:
            zone = _zone(self.zone)
        except (LookupError, OSError, ValueError):
            return f"the zone {self.zone!r:.80} is unknown; expected a name such as Europe/Berlin"
        try:
            if len(self.expression) > MAX_EXPRESSION_CHARACTERS:
                raise CronSimError(f"it has more than {MAX_EXPRESSION_CHARACTERS} characters")
            next(CronSim(self._fields, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as problem:
            return (
                f"{self.expression!r:.80} is not a cron expression ({str(problem).lower()}); expected minute, hour, day"
                " of month, month and day of week, such as `0 7 * * *` for each day at 7:00"
            )
        except StopIteration:
            return f"{self.expression!r:.80} names a day that no year has"
        return None

    def next(self, after: float) -> float:
        """Return the first time after this one."""
        return next(CronSim(self._fields, self._local(after))).timestamp()

    def newest(self, until: float) -> float:
        """Return the last time that is not after this one; 0 if there was none for fifty years."""
        # The search begins before its start, and has no fractions of a second.
        found = next(CronSim(self._fields, self._local(int(until) + 1), reverse=True), None)
        return found.timestamp() if found is not None else 0.0

    @property
    def _fields(self) -> str:
        return SHORT_FORMS.get(self.expression, self.expression)

    def _local(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, UTC).astimezone(_zone(self.zone))


def _zone(name: str) -> tzinfo:
    """Return the time zone with this name. Raises LookupError, OSError, ValueError for an unknown one."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
