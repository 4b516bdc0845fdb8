"""Bar charts as SVG, drawn with text and rectangles only; they follow the reader's light or dark colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABEL_WIDTH, VALUE_WIDTH = 720, 220, 110
ROW_HEIGHT, BAR_HEIGHT, TOP = 24, 14, 40

STYLE = """text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.bar { fill: #8c959f } .own { fill: #0969da } .aim { stroke: #cf222e; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .bar { fill: #6e7681 } .own { fill: #4493f8 } }"""


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its value, and whether it is this hub's."""

    label: str
    value: float
    is_own: bool = False


def draw_bars(title: str, unit: str, bars: Sequence[Bar], aim: float | None = None) -> str:
    """Draw horizontal bars from 0 to the greatest value, each with its value; `aim` is a dashed line."""
    height = TOP + ROW_HEIGHT * len(bars) + 10
    greatest = max([bar.value for bar in bars] + [aim or 0.0]) or 1.0
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / greatest
    head = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {head}>',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
        *_bars(bars, unit, scale),
    ]
    if aim is not None:
        x = LABEL_WIDTH + aim * scale
        parts.append(f'<line class="aim" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 6}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(bars: Sequence[Bar], unit: str, scale: float) -> Iterator[str]:
    for number, bar in enumerate(bars):
        y = TOP + ROW_HEIGHT * number
        length = max(1.0, bar.value * scale)
        name = "bar own" if bar.is_own else "bar"
        value = f"{bar.value:,.0f}" if bar.value >= 100 else f"{bar.value:.3g}"
        yield f'<text x="{LABEL_WIDTH - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
        yield f'<rect class="{name}" x="{LABEL_WIDTH}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}"/>'
        yield f'<text x="{LABEL_WIDTH + length + 6:.1f}" y="{y + 12}">{escape(f"{value} {unit}".strip())}</text>'
