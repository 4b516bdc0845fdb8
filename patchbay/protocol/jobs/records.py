"""What a job has: the call of a tool, its caller, and the task that its caller sees. Plain JSON, for the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from patchbay.access.principals import Principal


@dataclass(frozen=True, slots=True)
class Job:
    """One call as a job. `endpoint` is the address below /mcp/ that the caller used; `revision` is its revision."""

    task: str
    endpoint: str
    server: str
    tool: str
    arguments: dict[str, Any]
    principal: Principal
    capabilities: dict[str, Any]
    revision: str
    meta: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the job."""
        principal = asdict(self.principal)
        principal["groups"] = sorted(self.principal.groups)
        principal["scopes"] = None if self.principal.scopes is None else sorted(self.principal.scopes)
        fields = ("task", "endpoint", "server", "tool", "arguments", "capabilities", "revision", "meta")
        return {name: getattr(self, name) for name in fields} | {"principal": principal}


def read_job(fields: Mapping[str, Any]) -> Job:
    """Return the job of its fields."""
    given = dict(fields["principal"])
    scopes = given.pop("scopes")
    groups = frozenset(given.pop("groups"))
    principal = Principal(**given, groups=groups, scopes=None if scopes is None else frozenset(scopes))
    return Job(**{**fields, "principal": principal})
