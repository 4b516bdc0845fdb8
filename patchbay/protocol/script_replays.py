"""Repeats a run of a script against the records of its calls, and says where it differs. No call is made.

The script runs with the recorded version of its server, as the operator. The answer says what the records did not
keep.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.activation import Call
from patchbay.activity.records import Record
from patchbay.activity.script_runs import RunRecords, find_run
from patchbay.catalogue.servers.script_tools import NOT_INSTALLED, RUN, is_installed
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.protocol.hub_services import HubServices
from patchbay.protocol.script_calls import ASKED
from patchbay.python_functions.script_function import RUN_SECONDS, read_script_function
from patchbay.python_functions.script_texts import scripts_of

NOT_KEPT = "a hub with --activity-contents keep stores them, up to 16 KiB of each, except secret ones"


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """A repeated run: its records, and each difference as a sentence; `is_partial` says that it came to no end."""

    run: RunRecords
    differences: tuple[str, ...]
    is_partial: bool = False


def replay_run(services: HubServices, id: str) -> ReplayedRun:
    """Repeat a run by its id. Raises InvalidParams for a run that is not there, or whose script was not kept."""
    run = find_run(services.activity, id)
    if run is None:
        raise InvalidParams(f"there is no run {id}; the hub deletes old records (setting activity_days)")
    return repeat(services, run)


def repeat(services: HubServices, run: RunRecords) -> ReplayedRun:
    """Repeat a run. Raises InvalidParams for one that has not ended, or whose script was not kept."""
    if not is_installed():
        raise InvalidParams(NOT_INSTALLED)
    record = run.script
    if record is None:
        raise InvalidParams(f"the run {run.id} has not ended, or the record of its script is deleted")
    server = _find_server(services, record)
    arguments = script_arguments(services, record)
    if arguments is None:
        raise InvalidParams(f"the record {record.id} has no script or no inputs; {NOT_KEPT}")
    from patchbay.scripting.front import runs_of
    from patchbay.scripting.replay import RecordedResult, find_refused, replay_run

    # A call that ended with a question of its tool was made again with the answer: that record has the result.
    own = [one for one in run.calls if one.depth == 1 and one.outcome != ASKED["resultType"]]
    recorded = [RecordedResult(f"{one.server}.{one.name}", one.line, one.arguments, _result_of(one)) for one in own]
    recorded += find_refused(server, record.answer)
    call = Call(
        server.name,
        {},
        arguments,
        time.monotonic() + RUN_SECONDS,
        hub=services.catalogue.hub,
        principal=record.principal or LOCAL_OPERATOR.id,  # whose share of the interpreters it takes
        sender=LOCAL_OPERATOR,
    )
    found = replay_run(runs_of(call), server, call, recorded)
    differences = (*found.differences, *_compare(record, found.value, found.failure, bool(found.differences)))
    return ReplayedRun(run, differences, found.is_partial)


def script_arguments(services: HubServices, record: Record) -> dict[str, Any] | None:
    """Return the script and the inputs of a recorded run as arguments of `run_script`; None if they were not kept."""
    if record.arguments is None:
        return None
    if record.name == RUN:
        return dict(record.arguments)
    text = find_script(services, record)
    if text is None:
        return None
    from patchbay.scripting.saved import script_arguments

    return script_arguments(read_script_function(text, record.name), record.arguments)


def find_script(services: HubServices, record: Record) -> str | None:
    """Return the text of the script of a run: that of `run_script`, or of the recorded version of a toolset."""
    if record.name == RUN:
        code = (record.arguments or {}).get("code")
        return code if isinstance(code, str) else None
    try:
        server = services.catalogue.version(record.server, record.version)
    except PatchbayError:
        return None
    return scripts_of(server.config).get(record.name)


def _find_server(services: HubServices, record: Record) -> Server:
    """Return the recorded version of the server whose tools a run called; all servers are those of now."""
    if record.server == services.catalogue.aggregate().name:
        return services.catalogue.aggregate()
    try:
        return services.catalogue.pinned(record.server, record.version, operator=True)
    except PatchbayError as problem:
        raise InvalidParams(f"the run cannot be repeated: {problem.message}") from problem


def _result_of(record: Record) -> Mapping[str, Any] | None:
    """Return the recorded result of a call. One that failed without a result has the text of its error."""
    answer = record.answer
    if not isinstance(answer, Mapping) or "content" in answer or "structuredContent" in answer:
        return answer
    return {"content": [{"type": "text", "text": str(answer.get("message", ""))}], "isError": True}


def _compare(record: Record, value: Any, failure: str, has_differences: bool) -> list[str]:
    """Return what differs between the recorded end of a run and that of now."""
    answer = record.answer
    if not isinstance(answer, Mapping):
        return ["not kept: the record has no value of the script"]
    has_failed = bool(answer.get("isError"))
    if failure and not has_failed:
        return [] if has_differences else [f"another end: it failed now: {failure}"]
    if has_failed != bool(failure):
        return [f"another end: it failed then: {_text(answer)}"]
    if has_failed:
        return [] if failure.partition("\n")[0] in _text(answer) else [f"another failure: {failure}"]
    then = _value(record, answer)
    return [] if then == value else [f"another value: {value!r:.200}, recorded {then!r:.200}"]


def _value(record: Record, answer: Mapping[str, Any]) -> Any:
    """Return the recorded value of a script: a member of the result of `run_script`, or the result of its tool."""
    if record.name == RUN:
        return answer.get("structuredContent", {}).get("value")
    if "structuredContent" in answer:
        return answer["structuredContent"]
    return _text(answer) if answer.get("content") else None


def _text(answer: Mapping[str, Any]) -> str:
    return "\n".join(str(one.get("text", "")) for one in answer.get("content", ()) if one.get("type") == "text")
