"""What the standing connections of mounted servers and of mounted APIs share: context, health and pins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from patchbay.activation import Call, pauses
from patchbay.caller_accounts.accounts import CallersAccounts
from patchbay.caller_accounts.credentials import CallerCredentials
from patchbay.client.addresses.variables import UnsetVariable
from patchbay.config import FindVariables, advise_to_set
from patchbay.pins.documents import INTRODUCTION, Changes, ItemKey, Wire
from patchbay.pins.enforcement import PinState, check_pins
from patchbay.pins.records import load_approved, load_pins
from patchbay.processes.confinement.programs import ProgramPlaces
from patchbay.store import Store
from patchbay.upstreams.remembered_roots import RememberedRoots

FIRST_LISTS_SECONDS = 2.0
"""Seconds after the start of a mount in which a request for its lists waits for its first answer."""

FIRST_ENTRY_SECONDS = 20.0
"""Seconds after the start of a mount in which a call of what it does not list yet waits for its first answer.

A list is asked for by a client that starts, and waits for every server; a call is about this server alone.
"""

FIRST_CONNECTION_SECONDS = 20.0
"""Seconds that a call waits for the first connection to an upstream."""

State = Literal["connecting", "up", "down", "circle", "sign-in"]
"""`circle`: its own lists lead back to this hub, so it is not served. `sign-in`: no caller has connected an account."""


@dataclass(frozen=True)
class MountContext:
    """The environment of mounts. `hub` identifies this hub, `version` is its own; `announce` reports moved names.

    `changes` applies to mounts without this setting; None pins nothing. `folder` is the watched folder, where relative
    paths of definitions begin. `credentials` are the tokens of callers; None where callers have none. `programs` are
    the places of confined programs; None where programs have all rights of this process. `find_variables` has the
    secrets of the hub beside `environ`; None for mounts that may use no secret, such as those of a room.
    """

    store: Store
    environ: Mapping[str, str]
    hub: str
    version: str
    announce: Callable[[], None]
    changes: Changes | None = None
    folder: Path | None = None
    credentials: CallerCredentials | None = None
    programs: ProgramPlaces | None = None
    find_variables: FindVariables | None = None

    def variables(self, server: str) -> Mapping[str, str]:
        """Return what the configuration of a mount, by its name, may name as `${NAME}`."""
        return self.environ if self.find_variables is None else self.find_variables(server)

    @cached_property
    def roots(self) -> RememberedRoots:
        """The roots that clients of this hub gave."""
        return RememberedRoots(self.store.bus)


@dataclass(frozen=True, slots=True)
class Health:
    """The state since `since` (Unix time, seconds).

    `reason` explains `down`, without secrets; `tries` is the number of failed attempts, `retry` the seconds between the
    last attempt and the next. `revision` is the protocol revision in use, empty without a connection; `speaks` says it
    as the end of a sentence where it is not MCP. `note` is added to the sentence of a server that answers. `output` are
    the last lines on standard error of a program that failed, without secrets. `variable` is one of the hub's
    environment that it needs and that is not set.
    """

    state: State = "connecting"
    reason: str = ""
    revision: str = ""
    tries: int = 0
    retry: float = 0.0
    since: float = field(default_factory=time.time)
    speaks: str = ""
    note: str = ""
    output: tuple[str, ...] = ()
    variable: str = ""

    @property
    def sentence(self) -> str:
        """The state as a sentence."""
        if self.state == "up":
            return f"connected ({self.speaks or f'MCP {self.revision}'}){self.note}"
        if self.state == "connecting":
            return "the hub connects to it for the first time"
        if self.state == "sign-in":
            return "its lists are read when the first caller has connected an account there"
        if self.state == "circle":
            return f"it is not served: {self.reason}"
        if self.variable:
            return f"it is not started: {self.reason}"
        return f"it does not answer: {self.reason}; the hub tries again about every {self.retry:g} s"

    def data(self) -> dict[str, Any]:
        """Return the health as a JSON object."""
        return {
            "state": self.state,
            "reason": self.reason,
            "revision": self.revision,
            "tries": self.tries,
            "since": self.since,
            "sentence": self.sentence,
        }


def describe_unset(problem: UnsetVariable) -> str:
    """Return what the operator does about a variable that a mounted server needs: the words of pages and commands."""
    place = f" ({problem.path} needs it)" if problem.path else ""
    return f"{advise_to_set(problem.variable)}{place}"


class PinnedConfiguration(Protocol):
    """The configuration of a mount with pins; `changes` is None without the setting."""

    @property
    def name(self) -> str: ...

    @property
    def changes(self) -> Changes | None: ...


M = TypeVar("M", bound=PinnedConfiguration)


class PinnedMount(Generic[M]):
    """A mount whose entries are compared with the pins of its name."""

    def __init__(self, mount: M, context: MountContext) -> None:
        self.mount = mount
        self._context = context
        self.state_known = threading.Event()
        """Set once it is known whether the other side answers."""
        self.started_at: float | None = None
        """The `time.monotonic()` of the start."""

    def wait_for_first_answer(self) -> None:
        """Wait until it is known whether the other side answers, at most FIRST_LISTS_SECONDS from the start on."""
        self.state_known.wait(self._left_of(FIRST_LISTS_SECONDS))

    def left_for_entry(self) -> float:
        """Return the seconds in which a call of what is not listed yet may wait for the first answer.

        They end FIRST_ENTRY_SECONDS after the start.
        """
        return self._left_of(FIRST_ENTRY_SECONDS)

    def _left_of(self, seconds: float) -> float:
        """Return what is left of these seconds from the start on."""
        return 0.0 if self.started_at is None else max(0.0, self.started_at + seconds - time.monotonic())

    @property
    def changes(self) -> Changes | None:
        """What happens when the other side changes what it lists; None where nothing is pinned."""
        return self.mount.changes or self._context.changes

    def check_pins(self, listed: Mapping[ItemKey, Wire]) -> PinState:
        """Return which of these entries the pins of the mount hold or report."""
        if self.changes is None:
            return PinState("follow")
        return check_pins(load_pins(self._context.store, self.mount.name), self.changes, listed)

    def approved_introduction(self) -> Wire:
        """Return the approved title, description and instructions of the other side; empty without any."""
        return load_approved(self._context.store, self.mount.name, INTRODUCTION)


class Standing(Protocol):
    """What a hub maintains for one mount while it is served."""

    health: Health
    state_known: threading.Event

    @property
    def mount(self) -> Any:
        """The mount: hashable, equal for equal configurations."""
        ...

    @property
    def accounts(self) -> CallersAccounts | None:
        """The accounts of callers; None for a mount that uses the hub's credentials."""
        ...

    def last(self) -> Any:
        """Return what was read last from the other side, also before a restart; None before the first time."""
        ...

    def start(self) -> None:
        """Start the thread; does nothing the second time."""
        ...

    def wait_for_first_answer(self) -> None:
        """Wait until it is known whether the other side answers, at most FIRST_LISTS_SECONDS from the start on."""
        ...

    def left_for_entry(self) -> float:
        """Return the seconds in which a call of what is not listed yet may wait for the first answer."""
        ...

    def stop(self) -> None:
        """Tell the connection to end, without waiting for its end."""
        ...

    def join(self, seconds: float) -> None:
        """Wait up to this many seconds for the end."""
        ...

    def make_current(self) -> None:
        """Say that this is the mount of a served server."""
        ...

    def renew(self) -> None:
        """Connect anew with the present secrets; running calls end on the connections that they use."""
        ...

    def end_outdated_credentials(self) -> None:
        """End what uses a credential of a caller that has ended: running calls, connections and programs."""
        ...


def wait_until_known(standing: Standing, call: Call) -> None:
    """Start a mount for a call and wait until it is known whether the other side answers.

    The wait ends after FIRST_CONNECTION_SECONDS, and with the call.
    """
    standing.start()
    until = time.monotonic() + FIRST_CONNECTION_SECONDS
    for seconds in pauses(call):
        if standing.state_known.wait(seconds) or call.cancelled or call.left() <= 0 or time.monotonic() >= until:
            return


@runtime_checkable
class Openable(Protocol):
    """A mount that makes its own standing connection."""

    def __hash__(self) -> int: ...

    def open(self, context: MountContext) -> Standing:
        """Return what maintains this mount."""
        ...
