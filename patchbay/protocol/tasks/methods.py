"""The methods of the tasks extension: `tasks/get`, `tasks/update`, `tasks/cancel`, and tasks on listening streams.

A caller that did not declare the extension in this request is refused before the task is looked up.
Source: SEP-2663.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.activation import TASKS
from patchbay.errors import InvalidParams, MissingCapability
from patchbay.messages.callers import Caller
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.tasks.records import Task
from patchbay.protocol.tasks.tasks import TaskWatch
from patchbay.protocol.translate import stamped

MAX_TASKS_PER_STREAM = 64
"""Limit on the tasks of one stream."""


def need_tasks(caller: Caller) -> None:
    """Raise MissingCapability unless this message declares the extension."""
    if not caller.extends(TASKS):
        raise MissingCapability({"extensions": {TASKS: {}}})


def created(task: Task, context: RequestContext) -> dict[str, Any]:
    """Return the CreateTaskResult."""
    return stamped({"resultType": "task", **task.to_json()}, context.server, context.caller.revision)


def passed_on(result: dict[str, Any], context: RequestContext) -> dict[str, Any]:
    """Return a mounted server's result about its own task. At the endpoint of all servers the task's id is `server.id`
    (see `routing.py`).
    """
    if context.caller.wire.endpoint or "taskId" not in result:
        return result
    return {**result, "taskId": f"{context.server.name}.{result['taskId']}"}


def get_task(context: RequestContext) -> dict[str, Any]:
    """Answer tasks/get: the task with its result, error or open questions."""
    return stamped(_find_named(context).detailed(), context.server, context.caller.revision)


def update_task(context: RequestContext) -> dict[str, Any]:
    """Answer tasks/update: pass answers on to open questions; acknowledge also if no answer fits or the task ended."""
    task = _find_named(context)
    responses = context.params.get("inputResponses")
    if not isinstance(responses, Mapping):
        raise InvalidParams("params.inputResponses has to be an object of answers by key")
    context.services.tasks.answer(task, responses)
    return stamped({}, context.server, context.caller.revision)


def cancel_task(context: RequestContext) -> dict[str, Any]:
    """Answer tasks/cancel: acknowledge each time; the status of the task shows when it has stopped."""
    context.services.tasks.cancel(_find_named(context))
    return stamped({}, context.server, context.caller.revision)


def watched(context: RequestContext, wanted: Any) -> TaskWatch | None:
    """Return the tasks in a listen request, without tasks of other callers."""
    ids = wanted.get("taskIds") if isinstance(wanted, Mapping) else None
    if ids is None:
        return None
    need_tasks(context.caller)
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise InvalidParams("params.notifications.taskIds has to be an array of task ids")
    if len(ids) > MAX_TASKS_PER_STREAM:
        raise InvalidParams(
            f"params.notifications.taskIds has {len(ids)} ids; at most {MAX_TASKS_PER_STREAM} are taken"
        )
    found = []
    for id in dict.fromkeys(ids):
        try:
            found.append(_find(context, id))
        except InvalidParams:
            continue  # the acknowledgement lists the accepted ids
    return context.services.tasks.watch(found)


def _find_named(context: RequestContext) -> Task:
    need_tasks(context.caller)
    id = context.params.get("taskId")
    if not isinstance(id, str):
        raise InvalidParams("params.taskId has to be a string")
    return _find(context, id)


def _find(context: RequestContext, id: str) -> Task:
    return context.services.tasks.find(id, context.caller.wire.principal, context.caller.wire.endpoint)
