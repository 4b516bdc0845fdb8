"""Draws the rooms of the package, floor by floor, with the imports between them: docs/images/architecture.svg.

scripts/architecture_picture.py            writes the picture
scripts/architecture_picture.py --check    exits 1 when the picture is stale

A room is a folder or a module directly below `patchbay/`. Its floor is the one that tests/test_layers.py asserts. A
line from a room to a lower one says that modules of the upper room import modules of the lower room; a thicker line
means more imports. Lines to the basic types and settings are left out, because every room uses them.
"""

from __future__ import annotations

import sys
from collections import Counter
from html import escape
from pathlib import Path

from scripts.generated_files import write_or_check
from tests.source_modules import Module, read
from tests.test_layers import FLOORS

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

BASIC = {
    "assets",
    "cid",
    "errors",
    "events",
    "exit_codes",
    "hosts",
    "old_paths",
    "raised",
    "setting_values",
    "settings",
} | {
    "sqlite",
    "topics",
    "yaml_core",
}
"""The rooms to which no lines are drawn."""

WIDTH, FLOOR_HEIGHT, BOX_HEIGHT, WIDEST_BOX, GAP, MARGIN = 1180, 84, 46, 190, 14, 76
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1a1a1a } .small { font-size: 11px; fill: #555 }
rect { fill: #eef3fb; stroke: #5b7db1; rx: 6 } path { fill: none; stroke: #8a9bb5; stroke-opacity: 0.45 }
@media (prefers-color-scheme: dark) {
  svg { background: #14171c } text { fill: #e8e8e8 } .small { fill: #a9a9a9 }
  rect { fill: #222a36; stroke: #7f9dcc } path { stroke: #7f8fa8 }
}
"""

Point = tuple[float, float]


def room_of(module: Module) -> str:
    """The room of a module: the first part of its path below the package."""
    return module.place[0]


def rooms_by_floor(modules: list[Module]) -> dict[int, list[str]]:
    """The rooms that exist, by floor, from the highest floor to the lowest."""
    present = {room_of(module) for module in modules}
    floors = sorted({FLOORS[room] for room in present if room in FLOORS}, reverse=True)
    return {floor: sorted(room for room in present if FLOORS.get(room) == floor) for floor in floors}


def imports_between(modules: list[Module]) -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    found: Counter[tuple[str, str]] = Counter()
    for module in modules:
        for _, place in module.inside():
            if place and place[0] in FLOORS and place[0] != room_of(module) and room_of(module) in FLOORS:
                found[room_of(module), place[0]] += 1
    return found


def boxes(rooms: dict[int, list[str]]) -> dict[str, tuple[float, float, float]]:
    """Left edge, top edge and width of each room's box."""
    found: dict[str, tuple[float, float, float]] = {}
    for row, names in enumerate(rooms.values()):
        space = (WIDTH - MARGIN - GAP) / len(names)
        width = min(space - GAP, WIDEST_BOX)
        for column, name in enumerate(names):
            left = MARGIN + GAP + column * space + (space - GAP - width) / 2
            found[name] = (left, row * FLOOR_HEIGHT + 34, width)
    return found


def picture() -> str:
    """The picture as SVG text."""
    modules = [module for module in read("patchbay/**/*.py") if module.place]
    rooms, lines = rooms_by_floor(modules), Counter(room_of(module) for module in modules)
    places = boxes(rooms)
    height = len(rooms) * FLOOR_HEIGHT + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        ' aria-label="The rooms of the package, floor by floor, and the imports between them">',
        f"<style>{STYLE}</style>",
    ]
    for (upper, lower), count in sorted(imports_between(modules).items()):
        (x1, y1, w1), (x2, y2, w2) = places[upper], places[lower]
        if y2 > y1 and lower not in BASIC:
            middle = (y1 + BOX_HEIGHT + y2) / 2
            start, end = (x1 + w1 / 2, y1 + BOX_HEIGHT), (x2 + w2 / 2, y2)
            parts.append(
                f'<path stroke-width="{min(6.0, 0.6 + count / 12):.1f}" d="M{start[0]:.0f} {start[1]:.0f}'
                f' C{start[0]:.0f} {middle:.0f} {end[0]:.0f} {middle:.0f} {end[0]:.0f} {end[1]:.0f}"/>'
            )
    for row, (floor, names) in enumerate(rooms.items()):
        parts.append(f'<text x="8" y="{row * FLOOR_HEIGHT + 62}" class="small">floor {floor}</text>')
        for name in names:
            x, y, width = places[name]
            modules_text = f"{lines[name]} modules" if lines[name] > 1 else "1 module"
            parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}"/>')
            parts.append(f'<text x="{x + 8:.0f}" y="{y + 20:.0f}">{escape(name)}</text>')
            if width > 90:
                parts.append(f'<text x="{x + 8:.0f}" y="{y + 37:.0f}" class="small">{modules_text}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, picture, __doc__))
