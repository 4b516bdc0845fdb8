"""docs/addresses.md and docs/profiles.md: every example in them does what it says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from patchbay.client.addresses.address import LISTABLE, Address, find_preset, parse_address
from patchbay.client.addresses.launchers import PROGRAMS
from patchbay.client.addresses.targets import AddressError, Stdio
from patchbay.client.contracts.drift import detect_schema_changes
from patchbay.client.profiles.layouts import format_files, parse_profile
from tests.checkout import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "addresses.md").read_text("utf-8")
PROFILES = (DOCS / "profiles.md").read_text("utf-8")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)


def examples() -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    for line in "".join(blocks(PAGE, "address")).splitlines():
        if line.startswith("  "):
            key, _, value = line.strip().partition(": ")
            found[-1][1][key] = value
        else:
            found.append((line, {}))
    return found


def describe_operation(address: Address) -> str:
    if address.operation == "none":
        return "nothing yet"
    arguments = address.make_call_arguments(None)
    return f"{address.operation} {address.name}" + (f" {json.dumps(arguments)}" if arguments else "")


@pytest.mark.parametrize(("address", "expected"), examples(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_example_does_what_the_page_says(address: str, expected: dict[str, str]) -> None:
    """JN-22 to JN-29, JN-69, JN-C9 to JN-C12: the grammar as documented."""
    if "error" in expected:
        with pytest.raises(AddressError, match=re.escape(expected["error"])):
            parse_address(address)
        return
    found = parse_address(address)
    assert {"reach": found.target.label, "does": describe_operation(found)} == expected


def test_the_page_has_examples_of_every_launcher_and_every_list() -> None:
    assert len(examples()) > 25
    assert all(f"mcp+{launcher}:" in PAGE for launcher in PROGRAMS)
    assert all(f"`{what}`" in PAGE for what in LISTABLE)


def test_the_presets_of_the_page_are_launches() -> None:
    """JN-69: `.jn/mcp-launchers.json` as the page has it."""
    (rows,) = map(json.loads, blocks(PAGE, "json"))
    assert find_preset("biomcp", rows, "") == Stdio("uv", ("run", "--with", "biomcp-python", "biomcp", "run"))
    assert find_preset("context7", rows, "") == Stdio("npx", ("-y", "@upstash/context7-mcp@latest"))


def test_the_layouts_of_the_profile_page_are_one_profile() -> None:
    """JN-C5: the three layouts of docs/profiles.md, and the canonical form they are written in."""
    flat, search, one, nested, meta, tool = map(json.loads, blocks(PROFILES, "json"))
    profile = parse_profile("biomcp", flat, {"search": search}, "")
    assert profile == parse_profile("biomcp", one, {}, "") == parse_profile("biomcp", nested, {}, "")
    assert dict(format_files(profile)) == {"search.json": tool, "_meta.json": meta}


def rows(page: str) -> list[tuple[Any, Any, str]]:
    table = page.partition("| Before | After | Grade |\n| --- | --- | --- |\n")[2].partition("\n\n")[0]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return [(json.loads(old), json.loads(new), verdict.strip(" |")) for old, new, verdict in cells]


@pytest.mark.parametrize(("old", "new", "verdict"), rows(PROFILES))
def test_each_row_of_the_verdict_table_is_true(
    old: dict[str, Any] | None, new: dict[str, Any] | None, verdict: str
) -> None:
    """JN-45: the table of docs/profiles.md."""
    before, after = ([] if one is None else [{"name": "t", **one}] for one in (old, new))
    (change,) = detect_schema_changes(before, after)
    assert change.kind == verdict


def test_the_verdict_table_is_found() -> None:
    assert len(rows(PROFILES)) > 15
