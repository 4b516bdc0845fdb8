"""Two people and a key call three servers with credentials of their own, over two nodes: no call has another's.

`PATCHBAY_CREDENTIAL_CALLS` says how many calls; the figures are printed. Issue 56, 4.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx2
import pytest

from tests.access.upstreams.guarded import Guarded, caller_of, connect, running_guarded
from tests.access.upstreams.keyed import (
    Keyed,
    disconnect,
    key_of,
    processes_with,
    program_mount,
    read_processes,
    running_keyed,
    store,
)
from tests.attacks.test_searches_for_secrets import forms_of
from tests.checkout import ROOT
from tests.databases import PostgresqlServer
from tests.hubs import BOTH, Hub, modern_request
from tests.interaction.nodes import Nodes
from tests.signing_in import HTML, Browser, accounts_of, shared_hub, signed_in
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.node, pytest.mark.process]

CALLS = int(os.environ.get("PATCHBAY_CREDENTIAL_CALLS", "300"))
THREADS = 8
ENDED = "the hub ended this call: your account at tool was disconnected or replaced while it ran"
"""How the answer to a call begins that the hub ended."""

TOKEN_SECONDS = 90
"""Seconds of an access token: a long run refreshes each several times."""

PEOPLE = ("ann", "ben")
SERVERS = ("far", "keyed", "tool")
PAGES = ("/upstreams", "/account", "/activity", "/activity.json", "/audit", "/servers", "/history", "/settings")


@dataclass
class Sent:
    """What a call over a node gave: its caller, its server, and the name that the server knew."""

    caller: str
    server: str
    told: str


@dataclass
class World:
    """The nodes, a hub in this process on the same store for the pages, the servers behind them, and the callers."""

    nodes: Nodes
    pages: Hub
    guarded: Guarded
    keyed: Keyed
    tokens: dict[str, str] = field(default_factory=dict)
    """The tokens of the hub, by caller."""
    browsers: dict[str, Browser] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    """The credentials at the servers, by what they are."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sign_in(self, caller: str, ended: str = "") -> None:
        """Let a client of a person sign in to the hub, unless another thread has replaced the `ended` token."""
        with self.lock:
            if self.tokens.get(caller, "") == ended:
                self.tokens[caller] = caller_of(self.pages, self.browsers[caller], "").token

    def call(self, caller: str, server: str, number: int, tool: str = "whoami") -> Sent:
        """Call a tool over the next node."""
        body, own = modern_request("tools/call", {"name": tool, "arguments": {}})
        headers = own | {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
        url = f"http://127.0.0.1:{self.nodes.ports[number % len(self.nodes.ports)]}/mcp/{server}"
        token = self.tokens[caller]
        answer = CLIENT.post(url, json=body, headers=headers | {"Authorization": f"Bearer {token}"})
        if answer.status_code == 401 and caller in PEOPLE:  # a long run outlives the access token of the hub
            self.sign_in(caller, token)
            headers |= {"Authorization": f"Bearer {self.tokens[caller]}"}
            answer = CLIENT.post(url, json=body, headers=headers)
        text = answer.text
        if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            lines = [line[6:] for line in text.splitlines() if line.startswith('data: {"') and '"result"' in line]
            text = "".join(lines[:1])
        found = json.loads(text)
        return Sent(caller, server, found["result"]["content"][0]["text"] if "result" in found else text)


CLIENT = httpx2.Client(timeout=BOUND)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[World]:
    folder, address = tmp_path_factory.mktemp("world"), postgresql.new_schema()
    with ExitStack() as stack:
        guarded = stack.enter_context(running_guarded(tmp_path_factory.mktemp("guarded"), TOKEN_SECONDS))
        keyed = stack.enter_context(running_keyed(tmp_path_factory.mktemp("keyed")))
        nodes = Nodes(folder, address)
        nodes.servers.mkdir()
        files = {"far.json": guarded.mount(), "keyed.json": keyed.mount(), "tool.json": program_mount()}
        for name, text in files.items():
            (nodes.servers / name).write_text(text)
        for _ in range(2):
            nodes.start(stack, "--access", "shared", "--workers", "1", "--audit", "on")
        pages = shared_hub(tmp_path_factory.mktemp("pages"), store=address, key_file=folder / "key")
        stack.callback(pages.close)
        yield prepare(World(nodes, pages, guarded, keyed))


def prepare(world: World) -> World:
    """Let two people and a key connect an account at each server."""
    pages = world.pages
    for name, text in ((path.name, path.read_text()) for path in world.nodes.servers.iterdir()):
        (pages.servers / name).write_text(text)
    until(lambda: all(pages.catalogue.find(server) for server in SERVERS), "the pages have the servers")
    for name in PEOPLE:
        world.browsers[name] = signed_in(pages, name)
        world.sign_in(name)
    operator = world.browsers["robot"] = Browser(pages)
    assert operator.client.get(pages.app.parts.operators.links.make()).status_code == 303
    world.tokens["robot"] = pages.app.parts.keys.make("robot")
    for name, browser in world.browsers.items():
        query = "?for=key%3Arobot" if name == "robot" else ""
        assert "connected" in connect(browser.client, "far", name, query).text
        for server, entered in (("keyed", "token"), ("tool", "key")):
            key = world.secrets[f"{server} of {name}"] = key_of(name)
            assert store(browser.client, server, {entered: key}, query).status_code == 303
    for server in SERVERS:
        for port in range(2):
            until(lambda server=server, port=port: world.call("ann", server, port).told == "ann", f"{server} answers")  # type: ignore[misc]
    return world


def test_no_call_of_many_has_the_credential_of_another(world: World) -> None:
    random.seed(56)
    plan = [(caller, server) for caller, server in itertools.product(world.tokens, SERVERS)]
    chosen = [random.choice(plan) for _ in range(CALLS)]
    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        sent = list(pool.map(lambda each: world.call(each[1][0], each[1][1], each[0]), enumerate(chosen)))
    seconds = time.monotonic() - began
    wrong = [one for one in sent if one.told != one.caller]
    by_server = dict(Counter(one.server for one in sent))
    say(f"{len(sent)} calls in {seconds:.1f} s, by server {by_server}: {len(wrong)} with another credential or none")
    assert wrong == []
    secrets = world.secrets | {f"token {number}": text for number, text in enumerate({*world.guarded.tokens()})}
    environments = [data for _, data in read_processes("environ")]
    for name in PEOPLE:
        assert any(holds(data, world.secrets[f"tool of {name}"]) for data in environments), "the search finds nothing"
    places = [*list_places(world)]
    found = [(what, where) for where, data in places for what, text in secrets.items() if holds(data, text)]
    size = sum(len(data) for _, data in places)
    forms = len(forms_of(next(iter(secrets.values()))))
    say(f"{len(secrets)} secrets, each in {forms} forms, in {len(places)} places of {size} bytes: {len(found)} found")
    assert found == []


def test_a_disconnected_account_ends_its_calls_and_processes_on_every_node(world: World) -> None:
    """The account is disconnected at a third hub; a person who was not asked goes on."""
    key, browser = world.secrets["tool of ann"], world.browsers["ann"].client
    with ThreadPoolExecutor(4) as pool:
        waiting = {name: [pool.submit(world.call, name, "tool", node, "wait") for node in (0, 1)] for name in PEOPLE}
        until(lambda: len(processes_with(key)) > 1, "a process of ann runs on each node")
        disconnect(browser, "tool")
        for each in waiting["ann"]:
            assert each.result(BOUND).told.startswith(ENDED)
        until(lambda: not processes_with(key), "the processes of ann end")
        assert not any(each.done() for each in waiting["ben"])
        assert "/upstreams/tool" in world.call("ann", "tool", 0).told
        disconnect(world.browsers["ben"].client, "tool")
        assert all(each.result(BOUND).told.startswith(ENDED) for each in waiting["ben"])


def test_what_a_removed_person_has_open_ends_on_every_node(world: World) -> None:
    key = world.secrets["tool of ben"] = key_of("ben")
    assert store(world.browsers["ben"].client, "tool", {"key": key}).status_code == 303
    assert [world.call("ben", "tool", node).told for node in (0, 1)] == ["ben", "ben"]
    assert processes_with(key)
    accounts_of(world.pages).people.remove("ben")
    until(lambda: not processes_with(key), "the processes of ben end")


def say(figures: str) -> None:
    """Print figures of the run, which `pytest -s` shows."""
    sys.stderr.write(f"{figures}\n")


def holds(data: bytes, secret: str) -> bool:
    return any(form in data for form in forms_of(secret))


def list_places(world: World) -> Iterator[tuple[str, bytes]]:
    """Yield everything that the hubs wrote, show or run with, by its name."""
    for number, hub in enumerate(world.nodes.hubs):
        yield f"log of node {number}", "".join(hub.lines).encode()
        own = [path for path in (hub.folder / "data").rglob("*") if path.is_file()]
        yield from ((f"file {path}", path.read_bytes()) for path in own)
        token = hub.as_operator()
        for path in PAGES:
            for accept in ("text/html", "application/json"):
                answer = CLIENT.get(
                    f"http://127.0.0.1:{hub.port}{path}", headers=token | {"Accept": accept, "Host": "localhost"}
                )
                yield f"{path} of node {number}", answer.content
    for name, browser in world.browsers.items():
        query = "?for=key%3Arobot" if name == "robot" else ""
        for path in ("/upstreams", *(f"/upstreams/{server}" for server in SERVERS), "/account", "/activity"):
            for headers in (HTML, {"Accept": "application/json"}):
                yield f"{path} for {name}", browser.client.get(path + query, headers=headers).data
    yield "dump of the database", dump_database(world)
    for command in ("audit", "export"), ("store", "check"):
        yield " ".join(command), run_command(world, *command)
    yield from ((f"command line of {pid}", data) for pid, data in read_processes("cmdline"))


def dump_database(world: World) -> bytes:
    import psycopg

    with psycopg.connect(world.nodes.address) as connection:
        tables = connection.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = current_schema()"
        ).fetchall()
        rows = [connection.execute(f"select * from {table}").fetchall() for (table,) in tables]
    return b"\n".join(
        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
        for table in rows
        for row in table
        for value in row
    )


def run_command(world: World, *words: str) -> bytes:
    data = world.nodes.hubs[0].folder / "data"
    command = [sys.executable, "-m", "patchbay", *words, "--data", str(data), "--store", world.nodes.address]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=False, timeout=BOUND)
    return done.stdout + done.stderr
