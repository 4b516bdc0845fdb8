"""A hub with many servers, as a folder of definitions: for tests and benchmarks of what has to stay quick and usable.

Every server is another text, as it would be in reality; one of them has more tools than a page shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SERVERS, TOOLS = 300, 5_000
"""What the pages have to be quick with (issue "Pages that people like to look at", must show)."""

LARGEST = 520
"""Tools of the server with the most."""

TRADES = ("bakery", "harbour", "library", "observatory", "orchard", "post", "quarry", "railway", "theatre", "weather")
DEEDS = ("count", "describe", "find", "list", "measure", "move", "plan", "repeat", "reserve", "weigh")
THINGS = ("apple", "book", "crate", "letter", "lamp", "pillar", "seat", "star", "ticket", "wagon")

HEAD = '''"""The {trade} of town {number}, which keeps its {things} in order."""
'''
TOOL = '''

def {deed}_{thing}_{place}(text: str, times: int = 1, loud: bool = False) -> str:
    """{Deed} a {thing} of the {trade} in town {number}, way {place}.

    Args:
        text: What to say of the {thing}.
        times: How often, from 1 to 9.
        loud: Whether all should hear it.
    """
    said = " ".join([text] * times)
    return said.upper() if loud else said
'''


def name_of(number: int) -> str:
    """The name of a server: `harbour_001`."""
    return f"{TRADES[number % len(TRADES)]}_{number:03}"


def tools_of(number: int) -> Iterator[str]:
    """The names of a server's tools."""
    for place in range(how_many(number)):
        yield f"{DEEDS[place % 10]}_{THINGS[(number + place) % 10]}_{place}"


def how_many(number: int) -> int:
    """The tools of a server: the first has the most, and the others share the rest."""
    if number == 0:
        return LARGEST
    rest = TOOLS - LARGEST
    return rest // (SERVERS - 1) + (number <= rest % (SERVERS - 1))


def write_servers(folder: Path, servers: int = SERVERS) -> None:
    """Write definitions into a folder, which is made: SERVERS with TOOLS tools in all, or the first `servers`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(servers):
        trade = TRADES[number % len(TRADES)]
        text = HEAD.format(trade=trade, number=number, things=THINGS[number % 10] + "s")
        for name in tools_of(number):
            deed, thing, place = name.split("_")
            words = {"deed": deed, "Deed": deed.capitalize(), "thing": thing, "place": place}
            text += TOOL.format(trade=trade, number=number, **words)
        (folder / f"{name_of(number)}.py").write_text(text, "utf-8")
