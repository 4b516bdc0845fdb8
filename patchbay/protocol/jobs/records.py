"""What a job has: the call of a tool, its caller, and the task that its caller sees. Plain JSON, for the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.access.principals import Principal
from patchbay.coordination.records import decode_record, encode_record


@dataclass(frozen=True, slots=True)
class Job:
    """One call as a job. `endpoint` is the address below /mcp/ that the caller used; `revision` is its revision.

    `unknown_since` is the time of the store at which a worker first did not know the tool; 0 before.
    """

    task: str
    endpoint: str
    server: str
    tool: str
    arguments: dict[str, Any]
    principal: Principal
    capabilities: dict[str, Any]
    revision: str
    meta: dict[str, Any]
    unknown_since: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the job."""
        fields: dict[str, Any] = orjson.loads(encode_record(self))
        return fields


def read_job(fields: Mapping[str, Any]) -> Job:
    """Return the job of its fields. Raises ValueError for other fields."""
    return decode_record(Job, orjson.dumps(dict(fields)))
