"""The official clients find tools and run scripts: directly, and at a second hub that mounts the first one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.peers import MODERN, PythonSdk, TypeScriptSdk, typescript_sdk
from tests.interaction.programs import Hub, running_hub
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.node]

SHOP = '''"""A shop."""

import time


def price(item: str) -> dict[str, float]:
    """Look up the price of an item."""
    return {"price": float(len(item))}


def wait() -> str:
    """Wait for a long time."""
    time.sleep(600)
    return "waited"
'''
PRICES = """import asyncio, shop
found = await asyncio.gather(*[shop.price(item=one) for one in items])
total = 0.0
for one in found:
    total = total + (await shop.price(item="x" * int(one["price"])))["price"]
print("looked up", len(found))
total"""
STUCK = "import shop\nawait shop.price(item='a')\nawait shop.wait()"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    scripted = {"isolation": "process", "timeout": 900, "listing": {"scripts": "only"}}
    (folder / "shop.mcp.json").write_text(json.dumps(scripted))
    with running_hub(folder / "run", [folder / "shop.py", folder / "shop.mcp.json"]) as hub:
        yield hub


@pytest.fixture(scope="module", params=["directly", "through a mount"])
def address(first: Hub, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "directly":
        yield first.endpoint("shop")
        return
    folder = tmp_path_factory.mktemp("mount")
    (folder / "far.json").write_text(json.dumps({"url": first.endpoint("shop")}))
    with running_hub(folder / "run", [folder / "far.json"]) as hub:
        until_tools_are_listed(hub.endpoint("far"))
        yield hub.endpoint("far")


@pytest.fixture(scope="module", params=["python legacy", f"python {MODERN}", "ts legacy", f"ts {MODERN}", "ts sdk-1"])
def sdk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PythonSdk | TypeScriptSdk]:
    language, mode = request.param.split(" ")
    if language == "python":
        yield PythonSdk(mode)
        return
    with typescript_sdk(mode, tmp_path_factory.mktemp("home")) as client:
        yield client


def test_a_client_finds_tools_and_runs_a_script(address: str, sdk: PythonSdk | TypeScriptSdk) -> None:
    """Issue 55: structured output, which both SDKs check against the schema, and progress."""
    assert sdk.tools(address) == ["find_tools", "run_script"]
    assert "async def price(*, item: str)" in sdk.call(address, "find_tools", {"query": "price"})
    found = sdk.follow(address, "run_script", {"code": PRICES, "inputs": {"items": ["tea", "milk", "bread"]}})
    result = found["result"]
    assert result["structuredContent"]["value"] == 12.0 and len(result["structuredContent"]["calls"]) == 6
    assert "looked up 3" in "".join(one["text"] for one in result["content"])
    assert any("calls done" in one for one in found["progress"])


def test_a_wrong_type_is_a_failure_with_its_line_and_no_call(address: str, sdk: PythonSdk | TypeScriptSdk) -> None:
    code = "import shop\nawait shop.price(item='tea')\nawait shop.price(item=3)"
    result = sdk.follow(address, "run_script", {"code": code})["result"]
    text = "".join(one["text"] for one in result["content"])
    assert result["isError"] and "line 3" in text and "No call was made." in text


def test_a_script_that_its_client_cancels_ends_with_its_calls(
    first: Hub, address: str, sdk: PythonSdk | TypeScriptSdk
) -> None:
    """The first call is done when the client cancels; the second one is cancelled with the script."""
    before = outcomes(first)
    found = sdk.follow(address, "run_script", {"code": STUCK}, until=1)
    assert "error" in found

    def ended() -> bool:
        new = outcomes(first)[: len(outcomes(first)) - len(before)]
        return {("run_script", "cancelled"), ("wait", "cancelled")} <= set(new)

    until(ended, "the script and its call are cancelled")


def outcomes(hub: Hub) -> list[tuple[str, str]]:
    """The tools and outcomes of the recorded calls, newest first."""
    request = Request(f"{hub.url}/activity.json?limit=500", headers={"Accept": "application/json"})
    with urlopen(request) as answer:
        records: list[dict[str, Any]] = json.load(answer)["records"]
    return [(str(one["name"]), str(one["outcome"])) for one in records]
