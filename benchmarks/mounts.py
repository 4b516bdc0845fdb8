"""What a mount adds to a call: the same call to a server directly and through a hub that mounts it, in turn.

Rules: one caller, one kept-alive connection each, loopback HTTP; direct and mounted calls alternate, so that whatever
else the machine does befalls both; the results are medians.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.load import MODERN, SESSION, Target, target
from tests.interaction.programs import running_hub

HERE = Path(__file__).parent
ERAS = {SESSION: "legacy", MODERN: "modern"}
PATIENCE = 30.0
FIRST = 50
"""Calls before those that are measured."""


@dataclass(frozen=True)
class Added:
    """Medians of one call in milliseconds."""

    direct: float
    mounted: float

    @property
    def added(self) -> float:
        return self.mounted - self.direct


def added(folder: Path, calls: int) -> dict[str, Added]:
    """Measure in each revision, which is then spoken by the caller and by the mount."""
    definitions = [one for one in sorted((HERE / "definitions").iterdir()) if one.is_file()]
    with running_hub(folder / "behind", definitions) as behind:
        mounts = []
        for era in ERAS.values():
            mounts.append(folder / f"{era}.json")
            mount = {"kind": "upstream", "address": behind.endpoint("bench"), "era": era}
            mounts[-1].write_text(json.dumps(mount), "utf-8")
        with running_hub(folder / "before", mounts) as before:
            return {
                name: _added(behind.endpoint("bench"), before.endpoint(era), name, calls) for name, era in ERAS.items()
            }


def _added(direct: str, mounted: str, revision: str, calls: int) -> Added:
    aims = [target(url, revision) for url in (direct, mounted)]
    _wait_until_answered(aims[-1])
    ways = [_calls(aim) for aim in aims]
    for _ in range(FIRST):
        for way in ways:
            next(way)
    times = [[next(way) for way in ways] for _ in range(calls)]
    straight, through = (statistics.median(column) for column in zip(*times, strict=True))
    return Added(straight, through)


def _wait_until_answered(aim: Target) -> None:
    """A hub that has just started reaches what it mounts a moment later. Raises RuntimeError after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            next(_calls(aim))
            return
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _calls(aim: Target) -> Iterator[float]:
    """Call again and again; gives the milliseconds of each. Raises RuntimeError for a wrong answer."""
    parts = urlsplit(aim.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    number = 0
    while True:
        number += 1
        begun = time.perf_counter()
        connection.request("POST", parts.path, f"{aim.body[0]}{number}{aim.body[1]}", dict(aim.headers))
        answer = connection.getresponse()
        body = answer.read()
        passed = time.perf_counter() - begun
        if answer.status != 200 or b"hello, hello" not in body:
            raise RuntimeError(f"{aim.url} answered {answer.status}: {body[:300]!r}")
        yield passed * 1000
