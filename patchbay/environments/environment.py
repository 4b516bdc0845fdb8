"""One environment as a process of the hub sees it: absent, being made, ready or failed.

A thread makes it while calls wait. Processes agree by a lock on a file: the one that holds it makes the environment,
and the others wait for it and take its result, success or failure.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from patchbay.activation import PAUSE, Call, pauses
from patchbay.environments.installation import (
    Installation,
    InstallationFailed,
    Installed,
    read_installed,
)
from patchbay.environments.requirements import Requirements
from patchbay.errors import ServerFailed
from patchbay.events import Event
from patchbay.processes.confinement.programs import ProgramPlaces

log = logging.getLogger(__name__)

State = Literal["absent", "making", "ready", "failed"]

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 10.0, 3600.0
"""Seconds after which a call tries a failed environment again: doubled after each failure, up to the second value."""

LOCK_POLL_SECONDS = 0.1
"""Seconds between two attempts to take a lock that another process holds."""

USE_SECONDS = 600.0
"""Seconds after which a further use of an environment is recorded."""

NOT_PERMITTED = 'this hub installs no packages: start it with "--packages wheels"'


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """Where environments are and how they are made: the folder, the hub's variables, and which packages it permits.

    `packages` is the setting of this name: off, wheels or any. `slots` limits how many are made at once. `programs` are
    the places of the hub, from which installers are kept away.
    """

    folder: Path
    environ: Mapping[str, str]
    packages: str
    slots: threading.Semaphore
    programs: ProgramPlaces


class PackageEnvironment:
    """The environment of one set of requirements. `changed` is called after its state has changed. Thread-safe."""

    def __init__(
        self, needs: Requirements, place: EnvironmentSettings, changed: Callable[[PackageEnvironment], None]
    ) -> None:
        self.needs = needs
        self.folder = place.folder / needs.key
        self._place = place
        self._changed = changed
        self._news = threading.Condition()
        self._begun = 0.0
        self._used = -math.inf
        self._step = ""
        self._failures = 0
        is_off = place.packages == "off"
        self._retry_at = math.inf if is_off else 0.0
        self._reason = NOT_PERMITTED if is_off else ""
        self._thread: threading.Thread | None = None
        self._installation: Installation | None = None
        self._closed = False
        self.installed: Installed | None = read_installed(self.folder)
        self.state: State = "ready" if self.installed else "failed" if is_off else "absent"

    @property
    def site(self) -> Path | None:
        """The folder of its packages; None before it is ready."""
        found = self.installed
        return self.folder / found.site if found is not None else None

    @property
    def sentence(self) -> str:
        """The state as a sentence for people."""
        if self.state == "ready" and self.installed is not None:
            found = self.installed
            return f"{len(found.locked)} packages, {found.bytes / 1e6:.1f} MB, installed in {found.seconds:.1f} s"
        if self.state == "making":
            return f"{self._step} ({time.monotonic() - self._begun:.0f} s)"
        return f"not installed: {self._reason}" if self.state == "failed" else "not installed yet"

    def data(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        locked = list(self.installed.locked) if self.installed is not None else []
        wanted = list(self.needs.packages)
        return {"state": self.state, "sentence": self.sentence, "requirements": wanted, "locked": locked}

    def start(self, now: bool = False) -> None:
        """Begin to make the environment in a thread, unless it is ready or being made.

        After a failure it begins only when the time for another attempt has come, or with `now`.
        """
        with self._news:
            if self._closed or self.state in ("ready", "making"):
                return
            if self.state == "failed" and not self._may_retry(now):
                return
            self.state, self._begun, self._step = "making", time.monotonic(), f"waiting to install {self.needs.names}"
            self._thread = threading.Thread(target=self._make, name="packages", daemon=True)
            self._thread.start()

    def _may_retry(self, now: bool) -> bool:
        """Whether a failed environment may be tried again; always when another process of the hub has made it."""
        if read_installed(self.folder) is not None:
            return True
        return self._retry_at < math.inf and (now or time.monotonic() >= self._retry_at)

    def wait(self, call: Call) -> Generator[Event, Any, None]:
        """Wait until the environment is ready. Raises ToolFailed when it fails, or at the deadline of the call."""
        if self.installed is None or self._is_removed():
            self.start()
            for seconds in pauses(call):
                with self._news:
                    is_settled = self._news.wait_for(lambda: self.state != "making", seconds)
                if is_settled and self.state == "ready":
                    break
                if is_settled:
                    raise ServerFailed(f"the packages of {call.server} are {self.sentence}")
                if call.left() <= 0:
                    raise ServerFailed(
                        f"the packages of {call.server} are not ready: {self.sentence}; call again in a moment"
                    )
                yield PAUSE

    def close(self) -> None:
        """Stop uv, if it runs, and wait for its end."""
        with self._news:
            self._closed = True
            thread, installation = self._thread, self._installation
        if installation is not None:
            installation.stop()
        if thread is not None:
            thread.join(10)

    def _is_removed(self) -> bool:
        """Record the use in the time of the folder, for the collection; whether a collection has removed the folder."""
        now = time.monotonic()
        if now > self._used + USE_SECONDS:
            self._used = now
            try:
                os.utime(self.folder)
            except FileNotFoundError:
                with self._news:
                    self.installed, self.state = None, "absent"
                return True
            except OSError as problem:
                log.warning("the use of %s cannot be recorded: %s", self.folder, problem.strerror)
        return False

    def _make(self) -> None:
        problem = ""
        begun_at = time.time()
        try:
            with self._place.slots:
                self._make_alone(begun_at)
        except InstallationFailed as failure:
            problem = failure.message
        except Exception as failure:
            log.exception("an environment could not be made")
            problem = f"{type(failure).__name__}: {failure}"
        self._settle(problem)

    def _settle(self, problem: str) -> None:
        with self._news:
            self.installed = None if problem else read_installed(self.folder)
            self.state, self._reason, self._installation = "failed" if problem else "ready", problem, None
            self._failures = self._failures + 1 if problem else 0
            wait = min(FIRST_RETRY_SECONDS * 2 ** max(0, self._failures - 1), LAST_RETRY_SECONDS)
            self._retry_at = time.monotonic() + wait
            is_closed = self._closed
            self._news.notify_all()
        if is_closed:
            return
        log.log(logging.WARNING if problem else logging.INFO, "packages %s: %s", self.needs.names, self.sentence)
        self._changed(self)

    def _make_alone(self, begun_at: float) -> None:
        """Make the environment, or wait for the process that makes it. Raises InstallationFailed."""
        self._place.folder.mkdir(parents=True, exist_ok=True)
        failed = self._place.folder / f"{self.needs.key}.failed"
        with self._locked() as held:
            if read_installed(self.folder) is not None:
                return
            failure = _read_failure(failed)
            if failure is not None and failure[0] >= begun_at:
                raise InstallationFailed(failure[1])
            self._installation = Installation(
                self._place.folder,
                self.needs,
                self._place.environ,
                self._place.packages == "any",
                self._report,
                held,
                self._place.programs,
            )
            try:
                self._installation.make()
                failed.unlink(missing_ok=True)
            except InstallationFailed as problem:
                if not self._closed:
                    failed.write_bytes(orjson.dumps([time.time(), problem.message]))
                raise

    def _report(self, step: str) -> None:
        self._step = step
        log.info("%s (%.0f s)", step, time.monotonic() - self._begun)

    @contextmanager
    def _locked(self) -> Generator[int, None, None]:
        """Hold the lock of this environment, among all processes; gives its descriptor."""
        descriptor = os.open(
            self._place.folder / f"{self.needs.key}.making", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            while not _try_lock(descriptor):
                if self._closed:
                    raise InstallationFailed("the hub is ending")
                self._step = f"installing {self.needs.names}, in another process of the hub"
                time.sleep(LOCK_POLL_SECONDS)
            yield descriptor
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Take a lock; False while another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_failure(file: Path) -> tuple[float, str] | None:
    """Return when and why the last attempt failed; None without one."""
    try:
        at, reason = orjson.loads(file.read_bytes())
        return float(at), str(reason)
    except (OSError, ValueError, TypeError):
        return None
