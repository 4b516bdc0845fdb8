"""One command at work: how it reaches servers, what it does about drift, how its failures end.

`with_reach` gives a click command the options that all of these share and one argument, an open `ClientSession`.
Problems become one sentence on standard error and an exit code (`exits.py`).
Sources: JN-5, JN-44 to JN-48, JN-C15.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

import patchbay
from patchbay.cli.broken_pipe import watched_output
from patchbay.cli.failures import ending
from patchbay.cli.local_files import Contracts, settings_for_reading
from patchbay.cli.messages import note, program, typed
from patchbay.cli.progress_display import Display
from patchbay.cli.question_answers import Answers
from patchbay.client.addresses.targets import Era, Local, Target
from patchbay.client.auth.methods import BrowserSignIn
from patchbay.client.connection.connection import REQUEST_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, Connection
from patchbay.client.connection.environment import make_launch_environment
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, choose_verdict, format_warning
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import SourceContext, Sources
from patchbay.client.sources import make_sources
from patchbay.events import LOG_LEVELS
from patchbay.settings import Settings, sign_ins, whole_environment
from patchbay.views.terminal import is_terminal

Command = Callable[..., Any]

SECONDS = click.FloatRange(min=0, min_open=True)

CREATING = {"call", "put"}
"""The commands that run tools of this machine's hub, and so may create its store."""


@dataclass
class ClientSession:
    """What a command works with. `answers` and `display` are what the server's questions and progress go to."""

    context: SourceContext
    sources: Sources
    answers: Answers
    display: Display


@contextmanager
def session(
    timeout: float | None = None,
    start_timeout: float = START_TIMEOUT_SECONDS,
    era: Era = "auto",
    ignore_schema: bool = False,
    answers: Answers | None = None,
    level: str | None = None,
    creates: bool = False,
    listener: Callable[[str, Mapping[str, Any]], None] | None = None,
) -> Iterator[ClientSession]:
    """Everything that a command needs to reach servers; all of it is ended afterwards.

    `creates` says that the command may create the store of this machine's hub where there is none. `listener` gets the
    notifications of all servers that belong to no request.
    """
    environ = whole_environment()
    display = Display(level or "warning")
    answers = answers or Answers()
    answers.quiet = display.quiet
    answers.interactive = interactive = is_terminal(sys.stderr)
    settings = Settings.load()
    signin = BrowserSignIn(sign_ins(environ), _show if interactive else None, _hint())
    with ExitStack() as stack:
        stack.enter_context(_hushed())
        contracts = Contracts(settings)
        stack.callback(contracts.close)

        @cache
        def here() -> Any:
            """The hub, which is loaded where an address names one of its servers."""
            chosen = settings if creates else settings_for_reading(settings)
            hub = import_module("patchbay.cli.local_hub").LocalHub(chosen)
            stack.callback(hub.close)
            return hub

        def opened(target: Target) -> Connection:
            exchange = here().exchange(target) if isinstance(target, Local) else None
            with display.waiting(f"starting {target.label}"):
                return Connection.open(
                    target,
                    era="modern" if exchange is not None else era,
                    name=program(),
                    version=patchbay.__version__,
                    start_timeout=start_timeout,
                    timeout=timeout or REQUEST_TIMEOUT_SECONDS,
                    ask=answers,
                    questions=answers.questions,
                    environ=make_launch_environment(environ),
                    signin=signin,
                    exchange=exchange,
                    log_level=level,
                    quick=listener is None,
                    **({} if listener is None else {"listener": listener}),
                )

        connections = stack.enter_context(ConnectionPool(opened))
        stack.callback(display.clear)
        homes, check = find_homes(Path.cwd(), environ), None if ignore_schema else _judge
        context = SourceContext(
            connections, homes, environ, contracts, timeout, on_event=display.tell, check_contract=check
        )
        stack.enter_context(watched_output())
        yield ClientSession(context, make_sources(), answers, display)


@contextmanager
def _hushed() -> Iterator[None]:
    """Standard error is for what was asked: what the hub's own parts would warn an operator of stays out of it."""
    loggers = {logging.getLogger("patchbay"): logging.ERROR, logging.getLogger("patchbay.client"): logging.WARNING}
    before = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def _show(url: str) -> None:
    note(f"Sign in with your browser: {url}")
    click.launch(url)


def _hint() -> str:
    return f"sign in once on a terminal: {program()} inspect <the same address>"


def _judge(profile: Profile, result: ValidationResult) -> None:
    """What is done about the state of a profile's contract: nothing, the warning of JN-46, or a refusal."""
    what = choose_verdict(result, profile.schema_validation)
    if what == "go":
        return
    if result.status == "changed":
        note(format_warning(profile.name, result, typed(), program()) + "\n")
    else:
        note(f"Warning: the contract of @{profile.name} could not be checked: {result.message}")
    if what == "refuse":
        raise ContractError(f"@{profile.name}: refused, because its schema_validation is error; {result.message}")


def with_reach(command: Command) -> Command:
    """Give a command the shared options, and an open Session as its first argument."""

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
        ways = {name: options.pop(name) for name in ("timeout", "start_timeout", "ignore_schema", "level")}
        with ending(), session(era=era, answers=answers, creates=command.__name__ in CREATING, **ways) as work:
            return command(work, *arguments, **options)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


class NameValueType(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two halves."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"expected NAME=VALUE, got {value!r}", param, ctx)
        return name, text


PAIR = NameValueType()
_OPTIONS = (
    click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        help=f"Time for one request [default {REQUEST_TIMEOUT_SECONDS:g}].",
    ),
    click.option(
        "--start-timeout",
        type=SECONDS,
        metavar="SECONDS",
        default=START_TIMEOUT_SECONDS,
        help=f"Time for a server to start, a package to be fetched included [default {START_TIMEOUT_SECONDS:g}].",
    ),
    click.option(
        "--era",
        type=click.Choice(["auto", "modern", "legacy"]),
        default="auto",
        help="Which revisions to speak: from 2026-07-28 on, those before, or whichever there is [default auto].",
    ),
    click.option("--ignore-schema", is_flag=True, help="Do not compare the server's tools with the contract expected."),
    click.option("--answer", type=PAIR, multiple=True, help="Answer the server's question for NAME; repeatable."),
    click.option("--decline", is_flag=True, help="Decline every question of the server."),
    click.option("--sample", metavar="TEXT", help="Answer the server's requests for a model (sampling) with TEXT."),
    click.option("--root", metavar="DIRECTORY", multiple=True, help="Name a directory to the server; repeatable."),
    click.option(
        "--log-level",
        "level",
        type=click.Choice(LOG_LEVELS),
        help="Ask the server for its log from this level on; without, what it logs as a warning or worse is shown.",
    ),
)
