"""`patchbay runs`: the runs of scripts at a hub that waited, the state and the outcome of one, and its cancellation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import wraps
from typing import Any, cast

import click
import httpx2
import orjson

from patchbay import exit_codes
from patchbay.cli.client_session import ClientSession, Command, open_session
from patchbay.cli.commands.pipelines import with_style, write_records
from patchbay.cli.completion.values import complete_address
from patchbay.cli.records.output import FailureCounter, Style
from patchbay.cli.running_hub import find_running_hub
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.local_times import format_local_clock
from patchbay.cli.terminal.messages import write_note
from patchbay.cli.typed_addresses import complete_reference, with_headers
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.resolution import resolve_address
from patchbay.client.addresses.targets import Http
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.client.source import Record
from patchbay.client.sources.records import make_call_records
from patchbay.client.uploads import find_hub_url
from patchbay.errors import ConfigError
from patchbay.settings import Settings

REQUEST_SECONDS = 30.0
POLL_SECONDS = 0.5
"""Seconds between two questions whether a run has ended."""

RUNNING_SECONDS = 90.0
"""Seconds that `--wait` waits for a run that did not wait for a person: more than such a run may take."""

PAGE = "/activity/runs"
RUN_SCRIPT = "run_script"
NEEDS = {"approval": "an approval of", "answer": "an answer to", "account": "an account of its caller for"}
"""What a call that waits needs, and how a sentence names it before the calls."""
STEPS = {
    "approval": "decide on the page /approvals",
    "answer": "its caller makes the same call again with a client that shows questions",
    "account": "its caller connects the account on the page /upstreams",
}
"""What a person does about it."""

_LISTED = ("state", "server", "tool", "caller", "began", "ended", "until")

WAITS, GOES_ON = "suspended", ("decided", "running")
WAITING_RUN = f"{exit_codes.RELEASE}, and a script that waits"


@click.group(
    "runs",
    epilog=exit_codes.with_examples(
        *("patchbay runs list --text", "patchbay runs show RUN", "patchbay runs show RUN --wait --text"),
        "patchbay runs cancel RUN",
        after=WAITING_RUN,
    ),
)
def runs_group() -> None:
    """List the runs of scripts that waited, and show or cancel one.

    RUN is the id that `patchbay run` and `patchbay runs list` show.
    """


class _Hub:
    """The hub of a run: its URL, and the headers of each request."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url = url
        self._headers = headers | {"Accept": "application/json"}

    def find_all(self) -> Any:
        """Return the runs that waited for a person in the last day. Raises Unreachable, McpFailure."""
        return self._ask("GET", "", f"{PAGE}.json")["runs"]

    def read(self, run: str) -> Any:
        """Return the run. Raises ConfigError for an unknown one, Unreachable, McpFailure."""
        return self._ask("GET", run, f"{PAGE}/{run}.json")

    def cancel(self, run: str) -> Any:
        """Cancel a run, and return it. Raises ConfigError for an unknown one, Unreachable, McpFailure."""
        return self._ask("POST", run, f"{PAGE}/{run}", {"do": "cancel"})

    def _ask(self, method: str, run: str, path: str, form: dict[str, str] | None = None) -> Any:
        try:
            answer = httpx2.request(method, self._url + path, data=form, headers=self._headers, timeout=REQUEST_SECONDS)
            found = orjson.loads(answer.content)
        except (httpx2.HTTPError, orjson.JSONDecodeError) as problem:
            raise Unreachable(f"{self._url} has no answer about this run: {problem}") from problem
        if answer.status_code == 404:
            raise ConfigError(run, "", f"expected a run of your own at {self._url}, of the last day")
        if answer.status_code != 200:
            raise McpFailure(answer.status_code, f"{self._url}: {found.get('error', answer.status_code)}")
        return found


def _find_hub(work: ClientSession, address: str | None) -> _Hub:
    """Return the hub at an address, or the one that runs on the data folder, as its operator."""
    if address is None:
        hub = find_running_hub(Settings.load())
        if hub is None:
            raise Unreachable("no hub runs on this data folder: `patchbay serve`, or name the hub of the run with --at")
        return _Hub(hub.url, hub.headers())
    parsed = parse_address(complete_reference(address, work.context.list_servers))
    target = resolve_address(parsed, work.context.get_profiles(), work.context.environ).target
    url = find_hub_url(target.url) if isinstance(target, Http) else ""
    if not url or not isinstance(target, Http):
        raise ConfigError("--at", "", "expected the URL of an endpoint of a hub, such as https://hub.example/mcp")
    return _Hub(url, dict(target.headers))


def _with_hub(command: Command) -> Command:
    """Add the options that name the hub of a run, and pass a ClientSession as the first argument."""
    given = with_headers(command)

    @wraps(given)
    def opened(*arguments: Any, **options: Any) -> Any:
        with exit_on_error(), open_session() as work:
            return given(work, *arguments, **options)

    at = click.option(
        "--at",
        "address",
        metavar="ADDRESS",
        shell_complete=complete_address,
        help="The hub of the run: what `patchbay run --at` had [default the hub that runs on the data folder].",
    )
    return cast(Command, at(opened))


@runs_group.command(
    "list", epilog=exit_codes.with_examples("patchbay runs list --text", "patchbay runs list", after=WAITING_RUN)
)
@with_style
@_with_hub
def list_command(work: ClientSession, /, address: str | None, style: Style) -> None:
    """Print the runs of scripts that waited for a person in the last day, newest first.

    The operator of the hub gets those of all callers, a key gets its own.
    """
    failures = FailureCounter(style)
    write_records(map(_make_row, _find_hub(work, address).find_all()), failures)
    failures.finish()


@runs_group.command(
    "show",
    epilog=exit_codes.with_examples(
        "patchbay runs show RUN",
        "patchbay runs show RUN --wait --text",
        "patchbay runs show RUN --at https://hub.example/mcp/release --header 'Authorization: Bearer ${KEY}'",
        after=WAITING_RUN,
    ),
)
@click.argument("run")
@click.option("--wait", is_flag=True, help="Wait until the run has ended.")
@with_style
@_with_hub
def show_command(work: ClientSession, /, run: str, address: str | None, wait: bool, style: Style) -> None:
    """Print what a run printed and its value, as `patchbay run` does, once it has ended.

    For a run that has not ended, print its state and the calls that wait. Only its own caller gets the value; the hub
    keeps that of a run that waited for a person, for a day.
    """
    hub, failures = _find_hub(work, address), FailureCounter(style)
    found, begun = hub.read(run), time.monotonic()
    while wait and _goes_on(found, time.monotonic() - begun):
        time.sleep(POLL_SECONDS)
        found = hub.read(run)
    write_records(_make_records(found), failures)
    if found["state"] == WAITS:
        needed = {_needs(one) for one in found["running"]}
        steps = [step for name, step in STEPS.items() if name in needed]
        write_note(f"Next: {'; '.join([*steps, f'`patchbay runs cancel {run}` ends the run'])}")
    failures.finish()


@runs_group.command("cancel", epilog=exit_codes.with_examples("patchbay runs cancel RUN", after=WAITING_RUN))
@click.argument("run")
@_with_hub
def cancel_command(work: ClientSession, /, run: str, address: str | None) -> None:
    """Cancel a run that waits: the calls that wait are not made, and those that were made stay."""
    found = _find_hub(work, address).cancel(run)
    click.echo(f"The run {found['id']} is cancelled.")


def _make_row(found: dict[str, Any]) -> Record:
    """Return the record of a run in the list, with its text for people."""
    script = f"{found['tool']} of {found['server'] or 'all servers'}"
    state = f"waits for a person until {format_local_clock(found['until'])}" if found["until"] else found["state"]
    text = f"{found['id']}  {script}, by {found['caller']} at {format_local_clock(found['began'])}: {state}"
    return {"type": "script_run", "run": found["id"], **{name: found[name] for name in _LISTED}, "text": text}


def _state_of(found: dict[str, Any]) -> str:
    """Return the state of a run; the hub names none of a run that never waited for a person."""
    return str(found["state"] or ("ended" if found["record"] else "running"))


def _goes_on(found: dict[str, Any], waited: float) -> bool:
    """Whether `--wait` waits longer, after `waited` seconds.

    A run that never waited ends soon, and has no record where the hub records no scripts of its server.
    """
    is_short = not found["state"]
    return _state_of(found) in (WAITS, *GOES_ON) and not (is_short and waited > RUNNING_SECONDS)


def _make_records(found: dict[str, Any]) -> Iterator[Record]:
    """Yield the records of a run: those of its result once it has ended, else one with its state."""
    outcome, state = found["outcome"], _state_of(found)
    if outcome is not None and (outcome["failure"] or "value" in outcome):
        texts = [outcome["printed"]] if outcome.get("printed") else []
        value, failure = outcome.get("value"), outcome["failure"]
        texts.append(failure or (value if isinstance(value, str) else orjson.dumps(value).decode()))
        result: dict[str, Any] = {"content": [{"type": "text", "text": one} for one in texts]}
        whole = {"value": value, "calls": outcome["calls"], "run": found["id"]}
        yield from make_call_records(
            RUN_SCRIPT, result | ({"isError": True} if failure else {"structuredContent": whole})
        )
        return
    failed = {"isError": True} if state in ("failed", "expired") else {}
    yield {
        "type": "script_run",
        "run": found["id"],
        "state": state,
        "waiting": found["running"],
        "text": f"The run has ended. {outcome['note']}" if outcome is not None else _describe(state, found),
        **failed,
    }


def _describe(state: str, found: dict[str, Any]) -> str:
    """Return the state of a run that has no outcome for this reader, as a sentence."""
    if state == WAITS:
        needs = {name: [one for one in found["running"] if _needs(one) == name] for name in NEEDS}
        parts = [f"{NEEDS[name]} {_list_calls(calls)}" for name, calls in needs.items() if calls]
        return f"The run waits for {' and '.join(parts) or 'a person'}."
    calls = f"The page {PAGE}/{found['id']} has its calls."
    return {
        "decided": "The run is decided and goes on soon.",
        "running": "The run goes on.",
        "expired": "The run has ended: the decision, answer or account that it waited for did not come in time.",
        "ended": f"The run has ended. It never waited for a person, so the hub keeps no value of it. {calls}",
    }.get(state, f"The run has ended. Only its own caller gets the value. {calls}")


def _list_calls(calls: list[dict[str, Any]]) -> str:
    return ", ".join(f"{one['name']} (line {one['line']})" for one in calls)


def _needs(call: dict[str, Any]) -> str:
    """Return what a call waits for; a hub of an earlier version knows approvals alone."""
    return str(call.get("needs", "approval"))
