"""Every animal of the zoo is as good through the hub as directly, before and after the hub has probed it.

Issue 32, item 8. The table of what the hub does is in docs/mounting.md; the programs are in `animals.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import mcp
import pytest
from mcp.types import TextResourceContents

from tests.checkout import ROOT
from tests.hubs import Hub
from tests.waiting import BOUND, until
from tests.zoo.animals import ANIMALS
from tests.zoo.clients import Clients, Seen
from tests.zoo.habitat import OVER_STDIO, PLACES, REFUSED, Zoo, running_zoo

pytestmark = [pytest.mark.node, pytest.mark.process, pytest.mark.slow]

HUGE_CHARACTERS = 1_000_000
PROBES = 2
"""The number of probes of an idle animal after which every animal has been probed."""

WITHOUT_LASTING_PROGRAM = {"ends-after-each-call"}
CLIENTS_DIFFER = {"error-with-structure"}
"""Animals whose results some clients refuse: version 1 of the TypeScript SDK checks the structure of an error too."""

HANDSHAKE = {"typescript, newest": "typescript 2"}
"""The client that uses an animal directly in place of one that knows the newest revision only."""

VARYING_TOOLS = {"changes-its-tools"}
DIRECT_FAILS = {"no-capabilities"}
"""Animals that the official Python SDK refuses and the hub serves."""

SERVED = [place for place in PLACES if place[0] not in REFUSED]


@pytest.fixture(name="zoo", scope="module")
def shared_zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    with running_zoo(tmp_path_factory.mktemp("zoo")) as zoo:
        yield zoo


@pytest.fixture(name="probed", scope="module")
def zoo_after_probes(zoo: Zoo) -> Iterator[Zoo]:
    """The zoo after its animals were probed, while one of them worked on a call."""
    with ThreadPoolExecutor(2) as executor:
        working = [
            executor.submit(zoo.clients.use, "typescript, newest", zoo.endpoint("blocking", one), ("work", {}))
            for one in ("stdio", "http")
        ]
        before = {place: len(zoo.log(*place)) for place in (("plain", "stdio"), ("silent-to-unknown", "stdio"))}
        starts = zoo.count_starts()
        until(lambda: all(zoo.log(*place)[at:].count("ping") >= PROBES for place, at in before.items()), "probes")
        zoo.release("release")
        for one in working:
            found = one.result()
            assert isinstance(found, Seen)
            assert found.content == [{"type": "text", "text": "worked"}]
    assert zoo.count_starts() == starts, "no probe starts a program again"
    yield zoo


def expected(zoo: Zoo, name: str, transport: str) -> Seen:
    """Return what the official SDK sees without the hub, or what it should see where it refuses the animal."""
    found = zoo.direct[(name, transport)]
    if name in DIRECT_FAILS:
        assert isinstance(found, str), "it refuses this server"
        found = zoo.direct[("plain", transport)]
    assert isinstance(found, Seen), found
    return found


def check(zoo: Zoo, name: str, transport: str, client: str) -> None:
    """Let a client use an animal through the hub, and compare."""
    wanted: Seen | str = expected(zoo, name, transport)
    if name in CLIENTS_DIFFER and client.startswith("typescript"):
        wanted = zoo.use_directly_over_http(HANDSHAKE.get(client, client), name)
    if name in WITHOUT_LASTING_PROGRAM:
        # A call in the moment of its end gets no answer: whether the program saw the call is not known.
        until(lambda: zoo.count(name, transport, "start") > zoo.count(name, transport, "tools/call"), "a new start")
    seen = zoo.clients.use(client, zoo.endpoint(name, transport), ANIMALS[name].call)
    if name in VARYING_TOOLS:
        assert isinstance(seen, Seen)
        assert isinstance(wanted, Seen)
        assert "greet" in seen.tools
        seen = Seen(wanted.tools, seen.content, seen.structured, seen.is_error)
    assert seen == wanted, client


def test_no_animal_waits_for_one_that_starts_slowly(zoo: Zoo) -> None:
    """All others are listed. How often it was started is not counted: on a busy machine that takes over a minute."""
    assert set(zoo.log("slow-to-start", "stdio")) == {"start"}
    zoo.release("started")
    until(lambda: zoo.count("slow-to-start", "stdio", "tools/list"), "its first list")


def test_a_slow_animal_is_served_as_soon_as_it_answers(tmp_path: Path) -> None:
    hub, log = Hub(tmp_path / "hub", writes=(str(tmp_path),)), tmp_path / "slow-to-start-stdio.log"
    environment = {"PYTHONPATH": str(ROOT), "ZOO_FOLDER": str(tmp_path)}
    entry = {"command": sys.executable, "args": ["-S", str(OVER_STDIO), "slow-to-start"], "env": environment}
    (hub.servers / "slow.json").write_text(json.dumps(entry))
    try:
        until(lambda: log.exists() and log.read_text() == "start\n", "its start")
        (tmp_path / "started").touch()
        until(lambda: [one for one in hub.catalogue.all() if one.name == "slow" and one.tools], "its tools")
        assert log.read_text().count("start\n") == 1
    finally:
        hub.close()


@pytest.mark.parametrize(("name", "transport"), SERVED, ids=["-".join(place) for place in SERVED])
def test_an_animal_is_as_good_through_the_hub_as_directly(zoo: Zoo, name: str, transport: str) -> None:
    for client in Clients.names:
        check(zoo, name, transport, client)


def test_a_call_that_its_caller_has_left_does_no_harm(zoo: Zoo) -> None:
    left, before = threading.Event(), zoo.count("late", "stdio", "start")

    def call() -> None:
        try:
            zoo.clients.leave(zoo.endpoint("late", "stdio"), ("late", {}))
        finally:
            left.set()

    threading.Thread(target=call, daemon=True).start()
    until(left.is_set, "the caller to leave")
    zoo.release("late")
    for transport in ("stdio", "http", "sse"):
        check(zoo, "late", transport, "python, handshake")
    assert zoo.count("late", "stdio", "start") == before + len({"the session that left", "the session of the check"})


def test_a_huge_result_is_whole(zoo: Zoo) -> None:
    texts = asyncio.run(read_huge_result(zoo.endpoint("huge", "stdio"), HUGE_CHARACTERS))
    assert texts == ["é" * HUGE_CHARACTERS], "the hub gives the rest of a large text as a link"


async def read_huge_result(url: str, characters: int) -> list[str]:
    """Call for a text of this length; return the texts behind the links of the result."""
    async with mcp.Client(url, mode="legacy", read_timeout_seconds=BOUND) as client:
        result = await client.call_tool("greet", {"characters": characters})
        links = [part.uri for part in result.content if part.type == "resource_link"]
        contents = [one for link in links for one in (await client.read_resource(str(link))).contents]
        return [one.text for one in contents if isinstance(one, TextResourceContents)]


def test_a_server_in_an_unknown_revision_is_refused_with_the_revision(zoo: Zoo) -> None:
    for transport in ("stdio", "http", "sse"):
        assert isinstance(zoo.direct[("wrong-revision", transport)], str), "the official client refuses it too"
        asked = Request(f"{zoo.hub.url}/servers/wrong-revision-{transport}", headers={"Accept": "application/json"})
        with urlopen(asked, timeout=BOUND) as answer:
            state = json.load(answer)["server"]["upstream"]
        assert state["state"] == "down"
        assert "2099-01-01" in state["reason"]


@pytest.mark.parametrize(("name", "transport"), SERVED, ids=["-".join(place) for place in SERVED])
def test_an_animal_is_as_good_after_the_probes(probed: Zoo, name: str, transport: str) -> None:
    for client in ("python, handshake", "typescript, newest"):
        check(probed, name, transport, client)


@pytest.mark.full
@pytest.mark.parametrize("seconds", [40])
def test_a_start_of_forty_seconds_is_one_start(tmp_path: Path, seconds: int) -> None:
    hub = Hub(tmp_path / "hub", writes=(str(tmp_path),))
    environment = {"PYTHONPATH": str(ROOT), "ZOO_FOLDER": str(tmp_path), "ZOO_START_SECONDS": str(seconds)}
    entry = {"command": sys.executable, "args": ["-S", str(OVER_STDIO), "plain"], "env": environment}
    (hub.servers / "slow.json").write_text(json.dumps(entry))
    try:
        until(lambda: [one for one in hub.catalogue.all() if one.name == "slow" and one.tools], "its tools")
        assert hub.call("slow", "greet", {"name": "Ann"}).text == "Hello Ann"
        assert (tmp_path / "plain-stdio.log").read_text().count("start\n") == 1
    finally:
        hub.close()
