"""Decides whether a call of a tool becomes a job, and makes it one."""

from __future__ import annotations

from typing import Any

from patchbay.activation import TASKS
from patchbay.descriptors import Descriptor
from patchbay.protocol.jobs.records import Job
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.run_tool import check_arguments
from patchbay.protocol.tasks.records import Task


def is_job(context: RequestContext, descriptor: Descriptor) -> bool:
    """Whether a call of this tool runs as a task from its start: the tool says so, and its caller knows tasks."""
    return bool(descriptor.target.get("job")) and context.caller.revision.modern and context.caller.extends(TASKS)


def defer(context: RequestContext, descriptor: Descriptor, arguments: dict[str, Any]) -> Task | None:
    """Store a call as a job for any worker, and return its task; None where this process runs it itself.

    That is so on a hub of one machine, and at the address of one version. Raises WrongArguments, StoreAway.
    """
    jobs, caller = context.services.jobs, context.caller
    if not jobs.are_shared or context.server.pinned:
        return None
    check_arguments(context.server, descriptor, arguments)
    server, tool = descriptor.belongs_to or (context.server.name, descriptor.name)
    meta = context.params.get("_meta")
    return jobs.defer(
        Job(
            task="",
            endpoint=caller.wire.endpoint,
            server=server,
            tool=tool,
            arguments=arguments,
            principal=caller.wire.sender,
            capabilities=dict(caller.capabilities),
            revision=caller.revision.name,
            meta=dict(meta) if isinstance(meta, dict) else {},
        )
    )
