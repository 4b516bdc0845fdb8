"""The session of one client command: its connections, its reaction to changed contracts, its errors.

`with_session` adds the shared options to a click command, and passes an open `ClientSession` as its first argument. An
error is one sentence on standard error and an exit code (`exit_codes.py`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

import patchbay
from patchbay.cli.local_files import ContractBlobs, read_only_settings
from patchbay.cli.programs.rights import OPTIONS as PROGRAM_OPTIONS
from patchbay.cli.programs.rights import StartedPrograms, take_permissions
from patchbay.cli.terminal.broken_pipe import watch_output
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import program_name, typed_command, write_note
from patchbay.cli.terminal.progress_display import Display
from patchbay.cli.terminal.question_answers import Answers
from patchbay.client.addresses.targets import Era, Local, Stdio, Target
from patchbay.client.auth.configured import choose_sign_in
from patchbay.client.auth.methods import BrowserSignIn
from patchbay.client.connection.connection import REQUEST_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, Connection
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.connection.programs.environment import make_launch_environment
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, choose_reaction, format_warning
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import SourceContext, Sources
from patchbay.client.sources import make_sources
from patchbay.errors import PatchbayError
from patchbay.events import LOG_LEVELS
from patchbay.processes.confinement.programs import ProgramPermissions
from patchbay.settings import Settings, sign_ins, whole_environment
from patchbay.terminal import is_terminal

Command = Callable[..., Any]
Listener = Callable[[str, Mapping[str, Any]], None]
"""Gets the method and the params of a notification."""

SECONDS = click.FloatRange(min=0, min_open=True)

STORE_CREATING_COMMANDS = {"call", "put", "run"}
"""Commands that run tools of the local hub, and may therefore create its store."""


@dataclass
class ClientSession:
    """The parts of a running command. `answers` answers the server's questions; `display` shows progress and logs."""

    context: SourceContext
    sources: Sources
    answers: Answers
    display: Display


@contextmanager
def open_session(
    timeout: float | None = None,
    start_timeout: float = START_TIMEOUT_SECONDS,
    era: Era = "auto",
    ignore_schema: bool = False,
    answers: Answers | None = None,
    level: str | None = None,
    creates: bool = False,
    listener: Listener | None = None,
    keep: bool = False,
    permissions: ProgramPermissions | None = None,
) -> Iterator[ClientSession]:
    """Open everything that a command needs to reach servers; close it after the block.

    With `creates` the command may create the store of the local hub. `listener` gets notifications outside requests.
    With `keep`, a program stays for the next command with `keep`. `permissions` are those of programs that are started.
    """
    environ = whole_environment()
    display = Display(level or "warning")
    answers = answers or Answers()
    answers.quiet, answers.interactive = display.paused, is_terminal(sys.stderr)
    settings = Settings.load()
    programs = StartedPrograms(settings, environ, permissions or ProgramPermissions(), answers.roots)
    browser = BrowserSignIn(sign_ins(environ), _show_sign_in if answers.interactive else None, _sign_in_hint())
    with ExitStack() as stack:
        stack.enter_context(_quiet_logs())
        contracts = stack.enter_context(closing(ContractBlobs(settings)))

        local = _LocalServers(settings, settings if creates else read_only_settings(settings), stack)

        def connect(target: Target, **options: Any) -> Connection:
            signin = choose_sign_in(target, browser)
            chosen: dict[str, Any] = {
                "name": program_name(),
                "version": patchbay.__version__,
                "start_timeout": start_timeout,
                "timeout": timeout or REQUEST_TIMEOUT_SECONDS,
                "ask": answers,
                "questions": answers.questions,
                "environ": make_launch_environment(environ),
                "log_level": level,
                "era": era,
                "confinement": programs.confine(target),
            }
            with display.waiting(f"starting {target.label}"), programs.explaining(target):
                if keep and listener is None and isinstance(target, Stdio) and (kept := _open_kept(target, chosen)):
                    return kept
                return Connection.open(target, **_listening(listener), **{**chosen, "signin": signin, **options})

        def open_connection(target: Target) -> Connection:
            return local.open(target, connect) if isinstance(target, Local) else connect(target)

        connections = stack.enter_context(ConnectionPool(open_connection))
        stack.callback(display.clear)
        check = None if ignore_schema else _check_contract
        context = SourceContext(connections, find_homes(Path.cwd(), environ), environ, contracts, timeout)
        context = replace(context, check_contract=check, list_servers=local.list_names)
        context = replace(context, on_event=display.show, explain_denial=programs.explain)
        stack.enter_context(watch_output())
        yield ClientSession(context, make_sources(), answers, display)


def _open_kept(target: Stdio, options: Mapping[str, Any]) -> Connection | None:
    """Open the kept connection to a program; None, with a note, when no connection can be kept."""
    from patchbay.client.kept.places import NotKept
    from patchbay.client.kept.starting import open_kept

    try:
        return open_kept(target, **options)
    except NotKept as problem:
        write_note(f"The connection is not kept: {problem.message}. This command uses its own.")
        return None


@dataclass
class _LocalServers:
    """Opens connections to the servers of this hub: of the running hub, otherwise of a hub in this process.

    `settings` name the data folder, `own_settings` are those of the hub in this process; `stack` closes that hub.
    """

    settings: Settings
    own_settings: Settings
    stack: ExitStack

    @cached_property
    def _running(self) -> Any:
        return import_module("patchbay.cli.running_hub").find_running_hub(self.settings)

    @cached_property
    def _own(self) -> Any:
        hub = import_module("patchbay.cli.local_hub").LocalHub(self.own_settings)
        self.stack.callback(hub.close)
        return hub

    def list_names(self) -> list[str]:
        """Return the names of the servers of this hub; none when its data cannot be read."""
        directory = import_module("patchbay.cli.server_directory")
        with suppress(PatchbayError, OSError):
            return list(directory.list_names(self.settings, self._running))
        return []

    def open(self, target: Local, connect: Callable[..., Connection]) -> Connection:
        """Open a connection to a server. Raises UnknownServer, Unreachable, and what `connect` raises."""
        chosen = partial(connect, era="modern", signin=None)
        if self._running is not None:
            return cast(Connection, self._running.connect(target, chosen))
        return chosen(target, exchange=self._own.exchange(target))


def _listening(listener: Listener | None) -> dict[str, Any]:
    """Return the options of a connection with or without a listener; only one without may begin quickly."""
    return {"quick": True} if listener is None else {"listener": listener}


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Hide warnings of the hub in the block; standard error belongs to the command."""
    loggers = {logging.getLogger("patchbay"): logging.ERROR, logging.getLogger("patchbay.client"): logging.WARNING}
    before = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def _show_sign_in(url: str) -> None:
    write_note(f"Sign in with your browser: {url}")
    click.launch(url)


def _sign_in_hint() -> str:
    return f"sign in once on a terminal: {program_name()} inspect <the same address>"


def _check_contract(profile: Profile, result: ValidationResult) -> None:
    """React to the result of a contract check: do nothing, warn, or raise ContractError."""
    reaction = choose_reaction(result, profile.schema_validation)
    if reaction == "go":
        return
    if result.status == "changed":
        write_note(format_warning(profile.name, result, typed_command(), program_name()) + "\n")
    else:
        write_note(f"Warning: the contract of @{profile.name} could not be checked: {result.message}")
    if reaction == "refuse":
        raise ContractError(f"@{profile.name}: refused, because its schema_validation is error; {result.message}")


def with_session(command: Command) -> Command:
    """Add the shared options to a command; pass an open ClientSession as its first argument."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        given: dict[str, list[str]] = {}
        for name, value in options.pop("answer"):
            given.setdefault(name, []).append(value)
        flat: Mapping[str, str | list[str]] = {
            name: rows[0] if len(rows) == 1 else rows for name, rows in given.items()
        }
        answers = Answers(flat, options.pop("decline"), options.pop("sample"), options.pop("root"))
        era = cast(Era, options.pop("era"))
        ways = {name: options.pop(name) for name in ("timeout", "start_timeout", "ignore_schema", "level", "keep")}
        ways["permissions"] = take_permissions(options)
        with (
            exit_on_error(),
            open_session(era=era, answers=answers, creates=command.__name__ in STORE_CREATING_COMMANDS, **ways) as work,
        ):
            return command(work, *arguments, **options)

    for option in reversed((*_OPTIONS, *PROGRAM_OPTIONS)):
        run = option(run)
    return run


class NameValueType(click.ParamType[tuple[str, str]]):
    """A click type for `NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split the text into name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"expected NAME=VALUE, got {value!r}{_describe_other_form(str(value))}", param, ctx)
        return name, text


def _describe_other_form(text: str) -> str:
    """Return how to write what was probably meant; empty when that is not known."""
    if text.lstrip().startswith("{"):
        return "; a JSON object follows the option --args: --args '{...}'"
    name, colon, rest = text.partition(":")
    return f"; write {name.strip()}={rest.strip()}" if colon and name.strip().isidentifier() else ""


NAME_VALUE = NameValueType()
_OPTIONS = (
    click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        help=f"Time limit of one request [default {REQUEST_TIMEOUT_SECONDS:g}].",
    ),
    click.option(
        "--start-timeout",
        type=SECONDS,
        metavar="SECONDS",
        default=START_TIMEOUT_SECONDS,
        help=f"Time limit for the start of a server with its download [default {START_TIMEOUT_SECONDS:g}].",
    ),
    click.option(
        "--era",
        type=click.Choice(["auto", "modern", "legacy"]),
        default="auto",
        help="Protocol revisions: modern (2026-07-28 and newer), legacy (older), or automatic [default auto].",
    ),
    click.option(
        "--ignore-schema", is_flag=True, help="Do not compare the tools of the server with the expected contract."
    ),
    click.option("--answer", type=NAME_VALUE, multiple=True, help="Answer the server's question for NAME. Repeatable."),
    click.option("--decline", is_flag=True, help="Decline all questions of the server."),
    click.option("--sample", metavar="TEXT", help="Answer the server's requests for a model (sampling) with TEXT."),
    click.option(
        "--root", metavar="DIRECTORY", multiple=True, help="Tell the server that it may use this directory. Repeatable."
    ),
    click.option(
        "--keep",
        is_flag=True,
        envvar="PATCHBAY_KEEP",
        help="Leave the program of the server running for the next command with --keep; it ends after 10 idle minutes.",
    ),
    click.option(
        "--log-level",
        "level",
        type=click.Choice(LOG_LEVELS),
        help="Ask the server for log messages of this level and above. Without it, warnings and errors are shown.",
    ),
)
