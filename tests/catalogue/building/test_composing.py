"""Servers that are made of others: the order in which they are made, and those that cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson

from patchbay.catalogue.building.composing import CANNOT_BE_MADE, Composer, compose_version
from patchbay.catalogue.servers.server import Server
from tests.kinds.toolset.sets import FILES, hub_with, listed, toolset
from tests.waiting import until

SHAPED = {"from": "git.git_log", "arguments": {"max_count": {"value": 3}}}


def with_odd_tool(every: Mapping[str, Server]) -> dict[str, Server]:
    """The servers, of which one has a tool without the schema that each tool has."""
    git = every["git"]
    odd = replace(git.tools["git_log"], wire={"name": "git_log"})
    return {**every, "git": replace(git, tools={**git.tools, "git_log": odd})}


def test_a_toolset_that_leads_to_an_error_of_the_hub_is_broken_alone_until_its_servers_change(tmp_path: Path) -> None:
    files = {
        "release.json": toolset(tools={"history": SHAPED, "clock": "time.now"}),
        "outer.json": toolset(include=["release.*", "git.status"]),
        "clocks.json": toolset(include=["time"]),
    }
    hub = hub_with(tmp_path, files)
    sound = {one.name: one for one in hub.catalogue.all()}
    composer = Composer()
    found = composer.compose(with_odd_tool(sound), False)
    assert found["release"].broken == CANNOT_BE_MADE
    assert set(found["outer"].tools) == {"status"} and found["outer"].broken is None
    assert set(found["clocks"].tools) == {"now", "status"}
    found = composer.compose({**found, "git": sound["git"]}, False)
    assert set(found["release"].tools) == {"history", "clock"} and found["release"].broken is None
    assert set(found["outer"].tools) == {"history", "clock", "status"}
    hub.close()


def test_a_version_that_leads_to_an_error_of_the_hub_is_broken(tmp_path: Path) -> None:
    hub = hub_with(tmp_path, {"release.json": toolset(tools={"history": SHAPED})})
    sound = {one.name: one for one in hub.catalogue.all()}
    assert compose_version(sound["release"], with_odd_tool(sound), False).broken == CANNOT_BE_MADE
    assert set(compose_version(sound["release"], sound, False).tools) == {"history"}
    hub.close()


def test_a_toolset_is_made_after_those_that_it_names_beside_one_that_leads_back_to_itself(tmp_path: Path) -> None:
    files = {
        "a.json": toolset(include=["b.*"]),
        "b.json": toolset(include=["git.git_log", "x.*"]),
        "x.json": toolset(include=["x.*"]),
    }
    hub = hub_with(tmp_path, files).as_operator()
    assert [one.name for one in hub.catalogue.all() if one.broken] == ["x"]
    (hub.servers / "git.py").write_text(FILES["git.py"].replace("the last commits", "the newest commits"))
    hub.catalogue.read_folder()  # one round: a second one would make what the first one left as it was
    until(lambda: "newest" in listed(hub, "b")["git_log"]["description"], "the change")
    assert listed(hub, "a")["git_log"]["description"] == "Show the newest commits."
    assert orjson.loads(hub.call("a", "git_log", {"repo_path": "/srv"}).text)["repo"] == "/srv"
    hub.close()
