"""The navigation of the pages: sections by what people do, and the pages of a section.

A page names its entry with the value `here` of its frame. A reader gets the links to pages that show something to this
reader. Numbers say what waits: beside *Home* what its list has, beside *Access* the calls that wait for an approval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from patchbay.catalogue.servers.server import Server


@dataclass(frozen=True, slots=True)
class Reader:
    """What decides about the links of one reader.

    `has_operator_pages` says whether the reader is the operator or an administrator, `sees_configuration` whether the
    whole configuration is visible, `may_inspect` whether the page `/inspect` is of use, and `has_people` whether the
    hub has accounts of people.
    """

    has_operator_pages: bool
    sees_configuration: bool
    may_inspect: bool
    has_people: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for the reader: `home` entries of the home page, `approvals` of them calls that need an approval."""

    home: int = 0
    approvals: int = 0


def describe_navigation(here: str, reader: Reader, waiting: Waiting) -> dict[str, Any]:
    """Return the values of the navigation bar.

    `sections` has for each section `label`, `path`, `is_here` and the number `waits`; `pages` has the pages of the
    section of `here` as `label`, `path` and `is_here`, empty for a section that is one page; `section` is its label.
    """
    groups = {"Access": _access_pages(reader), "Hub": _hub_pages(reader)}
    single = {"Home": ("home", "/"), "Servers": ("servers", "/servers"), "Activity": ("activity", "/activity")}
    single["Rooms"] = ("rooms", "/rooms")
    waits = {"Home": waiting.home, "Access": waiting.approvals}
    sections, shown, section = [], [], ""
    for label in ("Home", "Servers", "Activity", "Access", "Rooms", "Hub"):
        pages = groups.get(label, [single[label] + (label,)] if label in single else [])
        if not pages:
            continue
        is_here = any(key == here for key, _, _ in pages)
        path = "/approvals" if label == "Access" and waiting.approvals else pages[0][1]
        sections.append({"label": label, "path": path, "is_here": is_here, "waits": waits.get(label, 0)})
        if is_here and label in groups:
            section = label
            shown = [{"label": name, "path": path, "is_here": key == here} for key, path, name in pages]
    return {"sections": sections, "section": section, "pages": shown}


def count_ailing(servers: Iterable[Server], decides: bool) -> int:
    """Count the servers that the home page lists: broken ones, ones that cannot work, ones with changed entries.

    `decides` says whether the reader is asked about entries that are held until they are approved.
    """
    return sum(
        1
        for each in servers
        if each.broken
        or each.trouble
        or (each.pins is not None and (each.pins.reported or (decides and each.pins.held)))
    )


def _access_pages(reader: Reader) -> list[tuple[str, str, str]]:
    """The pages about people and their rights, as `here`, path and label; none for other readers."""
    if not reader.has_operator_pages:
        return []
    people = [("people", "/people", "People")] if reader.has_people else []
    return [
        ("access", "/access", "Grants"),
        *people,
        ("keys", "/access/keys", "Keys"),
        ("approvals", "/approvals", "Approvals"),
        ("usage", "/access/usage", "Limits"),
        ("audit", "/audit", "Audit"),
    ]


def _hub_pages(reader: Reader) -> list[tuple[str, str, str]]:
    """The pages about the hub itself, as `here`, path and label."""
    configuration = [("variables", "/variables", "Variables"), ("history", "/history", "History")]
    settings = [("hub", "/settings", "Settings")]
    secrets = [("secrets", "/secrets", "Secrets")]
    operator = [
        ("pins", "/pins", "Pins"),
        ("schedules", "/schedules", "Schedules"),
        ("webhooks", "/webhooks", "Webhooks"),
        ("nodes", "/nodes", "Nodes"),
        ("registry", "/registry", "Registry"),
    ]
    return [
        *(settings if reader.has_operator_pages else ()),
        *(configuration[:1] if reader.sees_configuration else ()),
        *(secrets if reader.has_operator_pages else ()),
        *(configuration[1:] if reader.sees_configuration else ()),
        *(operator if reader.has_operator_pages else ()),
        *([("inspect", "/inspect", "Inspect")] if reader.may_inspect else ()),
    ]
