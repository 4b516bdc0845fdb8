"""`/access/usage`: what each caller uses of each of its limits, the nearest to its limit first.

An administrator sees all callers, any other reader itself. What is stored is counted in the store; what runs is in the
memory of each process, which this page asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Blueprint, Response, request

from patchbay.access.keys import PersonalKeys
from patchbay.access.limits.usage import BYTES, LABELS, Usage, Use
from patchbay.access.people.people import People
from patchbay.access.quotas import Quotas
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.topics import USAGE_ASKED, USAGE_TOLD
from patchbay.web.api.worker_answers import WorkerAnswers, hub_digest
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/access/usage"

MAX_CALLERS = 100
"""Callers whose numbers are read from the store for one page, at most."""

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class CallerNumbers:
    """The numbers of all callers, from all processes of the hub."""

    def __init__(self, site: Site, quotas: Quotas, ledger: Ledger, keys: PersonalKeys, people: People) -> None:
        self._usage = Usage(quotas, ledger)
        self._keys = keys
        self._people = people
        store = site.catalogue.store
        # On a store of one machine, hubs with other data folders are other hubs.
        told = USAGE_TOLD if store.is_shared else f"{USAGE_TOLD}{hub_digest(site.settings.data)}/"
        self._processes = WorkerAnswers(
            store, USAGE_ASKED, told, lambda: orjson.dumps(self._usage.running()), lambda: quotas.processes - 1
        )
        if site.settings.workers > 1 or store.is_shared:
            self._processes.listen()

    def of(self, id: str) -> list[dict[str, Any]]:
        """Return the numbers of a caller as JSON objects, the nearest to a limit first. It asks each process once."""
        return self._rows([id], self._running())

    def of_all(self) -> list[dict[str, Any]]:
        """Return the numbers of MAX_CALLERS callers that the hub knows, as `of` does: first those that act now."""
        running = self._running()
        return self._rows(self._callers(running), running)

    def _rows(self, ids: list[str], running: list[dict[str, dict[str, int]]]) -> list[dict[str, Any]]:
        found = [{"caller": id, **_values(use)} for id in ids for use in self._usage.of(id, _of(running, id))]
        return sorted(found, key=lambda row: -row["part"])

    def _callers(self, running: list[dict[str, dict[str, int]]]) -> list[str]:
        active = {id for process in running for id in process} | self._usage.principals()
        others = {key.principal.id for key in self._keys.all()} | {
            person.principal.id for person in self._people.list()
        }
        return [*sorted(active), *sorted(others - active)][:MAX_CALLERS]

    def _running(self) -> list[dict[str, dict[str, int]]]:
        return [orjson.loads(answer) for _, answer in self._processes.collect()]


def _of(running: list[dict[str, dict[str, int]]], id: str) -> list[Mapping[str, int]]:
    return [process[id] for process in running if id in process]


def _values(use: Use) -> dict[str, Any]:
    return {
        "limit": use.name,
        "counts": LABELS[use.name],
        "used": use.used,
        "most": use.limit,
        "part": round(use.part, 3),
        "text": format_use(use),
    }


def format_use(use: Use) -> str:
    """Return what is used for people: `3 of 20`, `12.5 MiB of 64 MiB`."""
    if use.name not in BYTES:
        return f"{use.used:,}" if use.limit is None else f"{use.used:,} of {use.limit:,}"
    return format_bytes(use.used) if use.limit is None else f"{format_bytes(use.used)} of {format_bytes(use.limit)}"


def format_bytes(size: int) -> str:
    """Return a number of bytes with a unit of 1024."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.3g} {UNITS[unit]}" if number < 1000 else f"{number:.0f} {UNITS[unit]}"


def usage_blueprint(site: Site, numbers: CallerNumbers) -> Blueprint:
    """The route `/access/usage`."""

    def show() -> Response:
        """GET: the numbers of all callers for an administrator, of `caller` alone if it is named; else one's own."""
        is_operator = site.operators.lenient_proof().is_operator
        named = request.args.get("caller", "").strip()
        sees_all = is_operator and not named
        rows = numbers.of_all() if sees_all else numbers.of(named if is_operator else site.sender.id)
        data = {"all": is_operator, "rows": rows}
        response = render_answer(
            site, "usage.html", "usage" if is_operator else "account", data, caller=named, most=MAX_CALLERS
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    pages = Blueprint("access_usage", __name__)
    pages.add_url_rule(PAGE, "show", show)
    return pages
