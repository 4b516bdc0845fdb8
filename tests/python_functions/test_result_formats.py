"""The schema of a result promises a format only if each value has it (issue 50 item 3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from patchbay.kinds.discovery import discover
from tests.hubs import Hub

SOURCE = '''"""Dates and other texts with a format."""

import datetime as dt
import ipaddress
import re
import uuid
from dataclasses import dataclass
from typing import TypedDict

from pydantic import BaseModel


@dataclass
class Row:
    created: dt.datetime
    at: dt.time
    took: dt.timedelta
    day: dt.date
    id: uuid.UUID
    place: ipaddress.IPv6Address
    old: ipaddress.IPv4Address


class Model(BaseModel):
    created: dt.datetime
    took: dt.timedelta


class Typed(TypedDict):
    created: list[dt.datetime]


ID = uuid.UUID(int=7)


def rows() -> Row:
    """Naive, with a fraction and a zone."""
    return Row(
        dt.datetime(2026, 1, 2, 3, 4, 5), dt.time(1, 2), dt.timedelta(seconds=-1.5), dt.date(2026, 1, 2), ID,
        ipaddress.ip_address("fe80::1%eth0"), ipaddress.ip_address("127.0.0.1"),
    )


def aware() -> Row:
    """With an offset."""
    zone = dt.timezone.utc
    return Row(
        dt.datetime(2026, 1, 2, tzinfo=zone), dt.time(1, tzinfo=zone), dt.timedelta(hours=1), dt.date(2026, 1, 2), ID,
        ipaddress.ip_address("::1"), ipaddress.ip_address("127.0.0.1"),
    )


def model() -> Model:
    """Naive."""
    return Model(created=dt.datetime(2026, 1, 2), took=dt.timedelta(milliseconds=1))


def typed() -> Typed:
    """Naive, in a list."""
    return {"created": [dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)]}


def take(when: dt.datetime, at: dt.time) -> str:
    """Arguments keep their formats, which say what to send."""
    return f"{when!r} {at!r}"
'''


@pytest.mark.parametrize("isolation", ["inline", "process"])
@pytest.mark.parametrize("tool", ["rows", "aware", "model", "typed"])
def test_a_client_that_checks_formats_takes_the_result(tmp_path: Path, isolation: str, tool: str) -> None:
    hub = Hub(tmp_path, {"dates.py": SOURCE}, isolation=isolation)
    try:
        result = hub.call("dates", tool, {}, "2026-07-28").result
        schema = hub.catalogue.find("dates").tools[tool].wire["outputSchema"]
    finally:
        hub.close()
    assert not result.get("isError"), result
    strict = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    assert list(strict.iter_errors(result["structuredContent"])) == []


def formats(schema: Any) -> Mapping[str, str]:
    """The format of each property of an object."""
    return {name: each["format"] for name, each in schema["properties"].items() if "format" in each}


def test_formats_that_each_value_has_are_promised() -> None:
    tools = {tool.name: tool for tool in discover("python", "dates", SOURCE.encode()).descriptors}
    assert formats(tools["rows"].wire["outputSchema"]) == {"day": "date", "id": "uuid", "old": "ipv4"}


def test_arguments_keep_their_formats(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"dates.py": SOURCE}, isolation="inline")
    try:
        schema = hub.catalogue.find("dates").tools["take"].wire["inputSchema"]
        said = hub.call("dates", "take", {"when": "2026-01-02T03:04:05", "at": "01:02:00"}, "2026-07-28").text
    finally:
        hub.close()
    assert formats(schema) == {"when": "date-time", "at": "time"}
    assert said == f"{dt.datetime(2026, 1, 2, 3, 4, 5)!r} {dt.time(1, 2)!r}"
