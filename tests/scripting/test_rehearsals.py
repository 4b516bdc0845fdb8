"""A rehearsal makes the calls of tools that read, and shows the others up to the first result that the script needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.activity.records import Filter
from tests.hubs import Hub
from tests.scripting.hubs import GIT, scripted_hub

READING = '''"""Reads."""

def find(count: int) -> list[int]:
    """Find numbers."""
    return list(range(count))


def shut(number: int) -> int:
    """Shut one."""
    return number


def quiet(number: int) -> int:
    """Shut one, too."""
    return number
'''
STRICT = {
    "kind": "toolset",
    "include": ["shop.shut"],
    "tools": {"find": {"from": "shop.find", "annotations": {"readOnlyHint": False}}},
    "listing": {"scripts": "also"},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    shop = json.dumps(
        {
            "isolation": "inline",
            "auto_discover": True,
            "listing": {"scripts": "also"},
            "tools": {"find": {"annotations": {"readOnlyHint": True}}},
        }
    )
    files = {"git.py": GIT, "shop.py": READING, "shop.mcp.json": shop, "strict.json": json.dumps(STRICT)}
    found = scripted_hub(tmp_path_factory.mktemp("rehearsals"), files)
    yield found
    found.close()


def rehearse(hub: Hub, code: str, server: str = "shop") -> dict[str, Any]:
    """What a rehearsal of a script gives."""
    params = {"name": "run_script", "arguments": {"code": code, "rehearse": True}}
    answer = hub.modern(server, "tools/call", params)
    assert not answer.result["isError"], answer.text
    found: dict[str, Any] = answer.result["structuredContent"]
    return found


def held(found: dict[str, Any]) -> list[tuple[str, int, Any]]:
    return [(one["tool"], one["line"], one["arguments"]) for one in found["rehearsed"]]


def made(hub: Hub, tool: str) -> int:
    return len(hub.activity.recent(Filter(server="shop", tool=tool), 1000).records)


CODE = """import asyncio
import shop

found = await shop.find(count=3)
shut = await asyncio.gather(*[shop.shut(number=number) for number in found])
await shop.quiet(number=shut[0])
"""


def test_reading_calls_are_made_and_the_others_shown_up_to_the_first_needed_result(hub: Hub) -> None:
    """Issue 55, item 4."""
    found = rehearse(hub, CODE)
    assert [one["tool"] for one in found["calls"]] == ["shop.find"]
    assert held(found) == [("shop.shut", 5, {"number": number}) for number in range(3)]
    digest = hub.catalogue.find("shop").tools["shut"].digest
    assert {(one["name"], one["digest"]) for one in found["rehearsed"]} == {("shop.shut", digest)}
    assert found["value"] is None and made(hub, "find") == 1 and made(hub, "shut") == made(hub, "quiet") == 0


def test_a_script_that_only_reads_ends_with_its_value(hub: Hub) -> None:
    found = rehearse(hub, "import shop\nawait shop.find(count=2)")
    assert (found["value"], found["rehearsed"]) == ([0, 1], [])


def test_reading_calls_beside_others_are_made_before_the_rehearsal_ends(hub: Hub) -> None:
    code = "import asyncio\nimport shop\nawait asyncio.gather(shop.shut(number=1), shop.find(count=1))"
    found = rehearse(hub, code)
    assert [one["tool"] for one in found["calls"]] == ["shop.find"] and held(found) == [("shop.shut", 3, {"number": 1})]


def test_a_toolset_that_is_stricter_than_the_origin_is_believed(hub: Hub) -> None:
    found = rehearse(hub, "import strict\nawait strict.find(count=2)", "strict")
    assert (found["calls"], held(found)) == ([], [("strict.find", 2, {"count": 2})])


def test_a_wrong_type_is_told_and_nothing_is_made(hub: Hub) -> None:
    params = {"name": "run_script", "arguments": {"code": "import shop\nawait shop.find(count='x')", "rehearse": True}}
    assert "line 2: " in hub.modern("shop", "tools/call", params).text
