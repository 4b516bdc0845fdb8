"""What needs the operator besides servers and calls: a disk and limits that are nearly full, and newer packages.

The home page shows it with buttons, and its stream tells when any of it changes. No registry is asked for it: the page
of updates stores what it found.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import orjson

from patchbay.access.limits.usage import LABELS, Usage
from patchbay.catalogue.catalogue import Catalogue
from patchbay.client.registry.packages import MountedPackage, describe_package
from patchbay.client.registry.versions import is_newer
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.store import Store
from patchbay.stores.reserve import FEW_DISK_BYTES
from patchbay.topics import NEWEST_PACKAGES
from patchbay.web.pages.schedules import list_failed_schedules

NEWEST_DAYS = 90.0
"""Days for which the newest versions of packages that were found are stored."""

COUNT_SECONDS = 2.0
"""Seconds for which the measured disk and limits are shown again."""


class Attention:
    """The state of one hub. `measure_free` returns the free bytes of the disk of a folder."""

    def __init__(
        self,
        catalogue: Catalogue,
        folder: Path,
        usage: Usage,
        scheduler: Scheduler,
        measure_free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._catalogue = catalogue
        self._folder = folder
        self._usage = usage
        self._scheduler = scheduler
        self._measure_free = measure_free
        self._counted: tuple[float, list[dict[str, str]]] = (-inf, [])

    def list_full(self) -> list[dict[str, str]]:
        """Return what is nearly full, each as `title`, `sentence`, and the button `label` with its page `to`.

        It reads no store, and measures at most once in COUNT_SECONDS, so that every page can count it.
        """
        now, (at, found) = time.monotonic(), self._counted
        if now - at > COUNT_SECONDS:
            found = [*self._full_disk(), *self._full_limits()]
            self._counted = now, found
        return found

    def _full_disk(self) -> Iterator[dict[str, str]]:
        try:
            free = self._measure_free(self._folder)
        except OSError:  # the folder does not exist yet: the hub stores nothing
            return
        if free < FEW_DISK_BYTES:
            sentence = (
                f"{free // 1024**2} MiB are free. Delete contents that nothing needs with `patchbay gc`, or move other"
                " files; `patchbay doctor` says what is large"
            )
            yield {"title": "The disk of this hub is nearly full", "sentence": sentence, "label": "", "to": ""}

    def _full_limits(self) -> Iterator[dict[str, str]]:
        for one in self._usage.totals():
            if one.near:
                callers = "1 caller is" if one.near == 1 else f"{one.near} callers are"
                sentence = f"{callers} near the limit, or at it: {LABELS[one.name]}"
                yield {
                    "title": "A limit is nearly reached",
                    "sentence": sentence,
                    "label": "See the limits",
                    "to": "/access/usage",
                }

    def list_updates(self) -> tuple[list[dict[str, str]], float | None, int]:
        """Return the mounted packages with a newer version, when they were looked for, and the number of packages.

        Each has the `name` of its server, `package`, `version` and `newest`. The time is Unix time, None for never.
        """
        mounted = list(self._packages())
        found = self._catalogue.store.journal.tail(NEWEST_PACKAGES, 1) if mounted else []
        if not found:
            return [], None, len(mounted)
        newest = orjson.loads(found[0].data)
        rows = [
            {"name": one.name, "package": one.package, "version": one.version, "newest": best}
            for one in mounted
            if (best := newest.get(f"{one.kind}:{one.package}")) and is_newer(best, one.version)
        ]
        return rows, found[0].at, len(mounted)

    def _packages(self) -> Iterator[MountedPackage]:
        for server in self._catalogue.all():
            one = describe_package(server.name, server.config) if server.kind == "upstream" else None
            if one is not None and one.version:
                yield one

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes when the home page of an operator has something else to show."""
        servers = [
            (one.name, one.enabled, one.broken, one.trouble, one.pins and (len(one.pins.held), len(one.pins.reported)))
            for one in self._catalogue.all()
        ]
        failed = [(one["server"], one["tool"], one["run"]["due"]) for one in list_failed_schedules(self._scheduler)]
        full = [one["title"] for one in self.list_full()]
        journal = self._catalogue.store.journal
        return tuple(servers), tuple(failed), tuple(full), journal.last(NEWEST_PACKAGES)


def store_newest(store: Store, newest: dict[str, str]) -> None:
    """Store the newest versions of packages, by `npm:PACKAGE` or `pypi:PACKAGE`, for the home page."""
    store.journal.append(NEWEST_PACKAGES, orjson.dumps(newest), NEWEST_DAYS * 86400)
